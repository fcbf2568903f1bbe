"""The custodian's side. Every public function here works on true records, so none of its errors quotes a value."""
