"""On the custodian's side: what in a release, beside the released value itself, tells the true one?"""
