# The seed program. Only what stands in the evolve block may change; a model's edits may put anything there.
#
# It reads one instance a line and writes one answer a line. What it prints with message() is shown if it fails.

# EVOLVE-BLOCK-START
start <- "given"
improve <- "none"
tries <- 200
heat <- 0.0
draw <- 1

# The generator of Park and Miller: numbers between 0 and 1.
state <- 7919 * draw

luck <- function() {
  state <<- (state * 16807) %% 2147483647
  (state - 1) / 2147483646
}

below <- function(n) floor(luck() * n)

# The distance from each of some points to a stop.
away <- function(points, some, stop) {
  sqrt((points[some, 1] - points[stop, 1])^2 + (points[some, 2] - points[stop, 2])^2)
}

len <- function(points, order) sum(away(points, order, c(order[-1], order[1])))

begin <- function(points) {
  n <- nrow(points)
  if (start == "sweep") return(order(atan2(points[, 2] - 0.5, points[, 1] - 0.5)))
  stops <- seq_len(n)
  if (start == "nearest") {
    for (i in seq_len(n)[-1]) {
      near <- i - 1 + which.min(away(points, stops[i:n], stops[i - 1]))
      stops[c(i, near)] <- stops[c(near, i)]
    }
  }
  stops
}

changed <- function(stops) {
  a <- below(length(stops)) + 1
  b <- below(length(stops)) + 1
  if (a > b) {
    c <- a
    a <- b
    b <- c
  }
  if (improve == "swap" || (improve == "both" && luck() < 0.5)) {
    stops[c(a, b)] <- stops[c(b, a)]
  } else {
    stops[a:b] <- stops[b:a]
  }
  stops
}

tour <- function(points) {
  state <<- 7919 * draw
  stops <- begin(points)
  if (improve == "none") return(stops)
  best <- stops
  best_length <- now <- len(points, stops)
  for (step in seq_len(tries) - 1) {
    other <- changed(stops)
    found <- len(points, other)
    if (found < now + heat * (1 - step / tries) * luck()) {
      stops <- other
      now <- found
      if (now < best_length) {
        best <- stops
        best_length <- now
      }
    }
  }
  best
}

# EVOLVE-BLOCK-END

# The points of {"points": [[x, y], ...]}: all numbers of the line, in pairs.
points_in <- function(line) {
  numbers <- regmatches(line, gregexpr("-?[0-9][0-9.]*([eE][-+]?[0-9]+)?", line))[[1]]
  matrix(as.numeric(numbers), ncol = 2, byrow = TRUE)
}

lines <- file("stdin", "r")
while (length(line <- readLines(lines, n = 1)) > 0) {
  cat("[", paste(tour(points_in(line)) - 1, collapse = ","), "]\n", sep = "")
  flush(stdout())  # the next instance comes after this answer
}
