# The seed program. Only what stands in the evolve block may change; a model's edits may put anything there.
#
# It reads one instance a line and writes one answer a line. What it prints to stderr is shown if it fails.

# EVOLVE-BLOCK-START
const start = "given"
const improve = "none"
const tries = 200
const heat = 0.0
const draw = 1

# The generator of Park and Miller: numbers between 0 and 1.
mutable struct Luck
    state::Int64
end

function next!(luck::Luck)
    luck.state = luck.state * 16807 % 2147483647
    return (luck.state - 1) / 2147483646
end

below!(luck::Luck, n) = floor(Int, next!(luck) * n)

away(a, b) = sqrt((a[1] - b[1])^2 + (a[2] - b[2])^2)

function len(points, order)
    total = 0.0
    for i in eachindex(order)
        total += away(points[order[i]], points[order[i % length(order) + 1]])
    end
    return total
end

function begin_with(points)
    order = collect(1:length(points))
    if start == "sweep"
        sort!(order, by = i -> atan(points[i][2] - 0.5, points[i][1] - 0.5))
    elseif start == "nearest"
        for i in 2:length(order)
            near = i
            for j in i:length(order)
                if away(points[order[j]], points[order[i-1]]) < away(points[order[near]], points[order[i-1]])
                    near = j
                end
            end
            order[i], order[near] = order[near], order[i]
        end
    end
    return order
end

function changed(order, luck)
    a, b = minmax(below!(luck, length(order)) + 1, below!(luck, length(order)) + 1)
    other = copy(order)
    if improve == "swap" || (improve == "both" && next!(luck) < 0.5)
        other[a], other[b] = other[b], other[a]
    else
        reverse!(other, a, b)
    end
    return other
end

function tour(points)
    order = begin_with(points)
    improve == "none" && return order
    luck = Luck(7919 * draw)
    best, best_length = order, len(points, order)
    now = best_length
    for step in 0:tries-1
        other = changed(order, luck)
        found = len(points, other)
        if found < now + heat * (1 - step / tries) * next!(luck)
            order, now = other, found
            if now < best_length
                best, best_length = order, now
            end
        end
    end
    return best
end

# EVOLVE-BLOCK-END

# The points of {"points": [[x, y], ...]}: all numbers of the line, in pairs.
function points_in(line)
    numbers = [parse(Float64, found.match) for found in eachmatch(r"-?[0-9][0-9.]*([eE][-+]?[0-9]+)?", line)]
    return [(numbers[i], numbers[i+1]) for i in 1:2:length(numbers)-1]
end

for line in eachline(stdin)
    println("[", join(tour(points_in(line)) .- 1, ","), "]")
    flush(stdout)  # the next instance comes after this answer
end
