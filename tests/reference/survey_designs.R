# Estimates and variances of R's survey package on unperturbed data, for test_survey_package.py.
#
#   Rscript survey_designs.R     (R 4.2.2, survey 4.1.1; writes the two CSV files beside this script)
#
# survey_sample.csv   the data: our own, by formulas
# survey_designs.csv  one row a parameter: the R calls, the estimate, its row of the covariance matrix, limits and df

suppressMessages(library(survey))
options(survey.lonely.psu = "fail", digits = 17)

# ---- the data: four strata, villages numbered within each, unequal sizes and weights
villages <- c(3, 4, 2, 5)
population <- c(12, 10, 8, 40)
plan <- do.call(rbind, lapply(1:4, function(h) {
  data.frame(stratum = h, psu = seq_len(villages[h]), units = population[h], size = 4 + (3 * h + 5 * seq_len(villages[h])) %% 6)
}))
plan$village <- seq_len(nrow(plan))
people <- plan[rep(seq_len(nrow(plan)), plan$size), c("stratum", "psu", "village", "units")]
rownames(people) <- NULL
i <- seq_len(nrow(people))
people$persons <- c(90, 120, 60, 400)[people$stratum]
people$w <- round(c(4, 2.5, 4, 8)[people$stratum] * (1 + 0.3 * sin(2.1 * i)), 4)
people$age <- round(40 + 15 * sin(1.7 * i) + 3 * cos(people$village), 2)
people$sex <- ifelse(sin(3.3 * i) > 0.1, "m", "f")
people$edu <- ifelse(sin(2.9 * i) < -0.3, "low", ifelse(sin(2.9 * i) < 0.6, "mid", "high"))
people$edu[people$stratum == 3 & people$edu == "high"] <- "mid" # a domain that a whole stratum lacks
people$y <- round(2 + 0.05 * people$age + 0.6 * (people$edu == "high") + sin(1.3 * people$village) + 0.8 * sin(5.1 * i), 4)
people$ill <- as.integer(sin(2.7 * i) + 0.03 * (people$age - 40) + 0.3 * (people$sex == "m") > 0.2)
people$visits <- floor(abs(2 + 0.04 * (people$age - 40) + 2.5 * sin(4.3 * i)))
people$income <- round(people$y + cos(i), 4)
people$income[i %% 7 == 3 | people$village == 2] <- NA # village 2 answered nothing at all

strata_psu <- svydesign(ids = ~psu, strata = ~stratum, weights = ~w, nest = TRUE, data = people)
replicated <- as.svrepdesign(strata_psu, type = "JKn")
replicates <- round(weights(replicated, type = "analysis"), 6)
colnames(replicates) <- paste0("r", seq_len(ncol(replicates)))
people <- cbind(people, replicates)

# ---- the designs, by the text of their calls
designs <- list(
  weights = quote(svydesign(ids = ~1, weights = ~w, data = people)),
  clusters = quote(svydesign(ids = ~village, weights = ~w, data = people)),
  strata = quote(svydesign(ids = ~psu, strata = ~stratum, weights = ~w, nest = TRUE, data = people)),
  finite = quote(svydesign(ids = ~psu, strata = ~stratum, weights = ~w, fpc = ~units, nest = TRUE, data = people)),
  finite_records = quote(svydesign(ids = ~1, strata = ~stratum, weights = ~w, fpc = ~persons, data = people)),
  plain = quote(svydesign(ids = ~1, weights = ~1, data = people)),
  replicates_jkn = quote(svrepdesign(weights = ~w, repweights = "r[0-9]+", data = people, type = "other",
    combined.weights = TRUE, scale = 1, rscales = replicated$rscales, mse = TRUE)),
  replicates_scale = quote(svrepdesign(weights = ~w, repweights = "r[0-9]+", data = people, type = "other",
    combined.weights = TRUE, scale = 0.4, rscales = rep(1, 14), mse = TRUE))
)
exact <- list(epsilon = 1e-15, maxit = 100)
analyses <- list(
  mean = quote(svymean(~y, d)),
  shares = quote(svymean(~edu, d)),
  total = quote(svytotal(~y, d)),
  counts = quote(svytotal(~edu, d)),
  table = quote(svytotal(~interaction(sex, edu, lex.order = TRUE), d)),
  mean_by = quote(svyby(~y, ~edu, d, svymean, covmat = TRUE)),
  total_by = quote(svyby(~y, ~edu, d, svytotal, covmat = TRUE)),
  total_by_two = quote(svyby(~y, ~sex + edu, d, svytotal, covmat = TRUE)),
  mean_gaps = quote(svymean(~income, d, na.rm = TRUE)),
  total_gaps = quote(svytotal(~income, d, na.rm = TRUE)),
  ratio = quote(svyratio(~y, ~age, d)),
  linear = quote(svyglm(y ~ age + edu, d, control = exact)),
  logistic = quote(svyglm(ill ~ age + sex, d, family = quasibinomial(), control = exact)),
  poisson = quote(svyglm(visits ~ age + edu, d, family = quasipoisson(), control = exact)),
  odds = quote(svyglm(ill ~ sex, d, family = quasibinomial(), control = exact))
)

number <- function(x) formatC(x, digits = 17, format = "g", width = 1)
limits <- function(found, df) {
  if (inherits(found, "svyglm")) confint(found, ddf = df) else confint(found, df = df)
}
spell <- function(call) gsub(" +", " ", paste(deparse(call, width.cutoff = 500), collapse = " "))

rows <- list()
for (design in names(designs)) {
  d <- suppressWarnings(eval(designs[[design]]))
  for (analysis in names(analyses)) {
    found <- suppressWarnings(eval(analyses[[analysis]]))
    df <- degf(if (grepl("gaps", analysis)) subset(d, !is.na(income)) else d)
    value <- coef(found)
    spread <- as.matrix(vcov(found))
    ends <- limits(found, df)
    rows[[length(rows) + 1]] <- data.frame(
      design = design, analysis = analysis, term = names(value), estimate = number(value),
      covariance = apply(spread, 1, function(row) paste(number(row), collapse = " ")),
      low = number(ends[, 1]), high = number(ends[, 2]), df = df,
      svydesign = spell(designs[[design]]), call = spell(analyses[[analysis]])
    )
  }
  model <- eval(analyses$linear)
  df <- degf(d)
  test <- regTermTest(model, ~edu, df = df)
  rows[[length(rows) + 1]] <- data.frame(
    design = design, analysis = "wald", term = "edu", estimate = number(test$Ftest), covariance = "",
    low = number(test$p), high = "", df = df, svydesign = spell(designs[[design]]),
    call = "regTermTest(svyglm(y ~ age + edu, d), ~edu, df = degf(d)): F, and its p-value under `low`"
  )
}
write.csv(people, "survey_sample.csv", row.names = FALSE, quote = FALSE, na = "")
write.csv(do.call(rbind, rows), "survey_designs.csv", row.names = FALSE)
