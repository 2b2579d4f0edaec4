// The seed program. Only what stands in the evolve block may change; a model's edits may put anything there.
//
// It reads one instance a line and writes one answer a line. What it prints to std::cerr is shown if it fails.

#include <algorithm>
#include <cctype>
#include <cmath>
#include <cstdint>
#include <cstdlib>
#include <iostream>
#include <string>
#include <vector>

// EVOLVE-BLOCK-START
const std::string start = "given";
const std::string improve = "none";
const int tries = 200;
const double heat = 0.0;
const int draw = 1;

using Tour = std::vector<int>;

struct Point {
    double x, y;
};

// The generator of Park and Miller: numbers between 0 and 1.
struct Luck {
    std::int64_t state;

    double next() {
        state = state * 16807 % 2147483647;
        return (state - 1) / 2147483646.0;
    }

    int below(int n) { return static_cast<int>(next() * n); }
};

double distance(const Point& a, const Point& b) {
    double dx = a.x - b.x, dy = a.y - b.y;
    return std::sqrt(dx * dx + dy * dy);
}

double length(const std::vector<Point>& points, const Tour& order) {
    double sum = 0.0;
    for (std::size_t i = 0; i < order.size(); i++)
        sum += distance(points[order[i]], points[order[(i + 1) % order.size()]]);
    return sum;
}

Tour begin(const std::vector<Point>& points) {
    Tour order(points.size());
    for (std::size_t i = 0; i < order.size(); i++) order[i] = static_cast<int>(i);
    if (start == "sweep") {
        auto angle = [&](int i) { return std::atan2(points[i].y - 0.5, points[i].x - 0.5); };
        std::sort(order.begin(), order.end(), [&](int a, int b) { return angle(a) < angle(b); });
    } else if (start == "nearest") {
        for (std::size_t i = 1; i < order.size(); i++) {
            std::size_t near = i;
            for (std::size_t j = i; j < order.size(); j++)
                if (distance(points[order[j]], points[order[i - 1]]) < distance(points[order[near]], points[order[i - 1]]))
                    near = j;
            std::swap(order[i], order[near]);
        }
    }
    return order;
}

Tour changed(const Tour& order, Luck& luck) {
    int n = static_cast<int>(order.size());
    int a = luck.below(n), b = luck.below(n);
    if (a > b) std::swap(a, b);
    Tour other = order;
    if (improve == "swap" || (improve == "both" && luck.next() < 0.5))
        std::swap(other[a], other[b]);
    else
        std::reverse(other.begin() + a, other.begin() + b + 1);
    return other;
}

Tour tour(const std::vector<Point>& points) {
    Tour order = begin(points);
    if (improve == "none") return order;
    Luck luck{7919 * draw};
    Tour best = order;
    double best_length = length(points, order), now = best_length;
    for (int step = 0; step < tries; step++) {
        Tour other = changed(order, luck);
        double found = length(points, other);
        if (found < now + heat * (1.0 - double(step) / tries) * luck.next()) {
            order = other;
            now = found;
            if (now < best_length) {
                best = order;
                best_length = now;
            }
        }
    }
    return best;
}

// EVOLVE-BLOCK-END

// The points of {"points": [[x, y], ...]}: all numbers of the line, in pairs.
std::vector<Point> points_in(const std::string& line) {
    std::vector<double> numbers;
    for (const char* at = line.c_str(); *at;) {
        char* end;
        double value = std::strtod(at, &end);
        if (end == at || std::isalpha(static_cast<unsigned char>(*at))) {
            at++;
            continue;
        }
        numbers.push_back(value);
        at = end;
    }
    std::vector<Point> points;
    for (std::size_t i = 0; i + 1 < numbers.size(); i += 2) points.push_back({numbers[i], numbers[i + 1]});
    return points;
}

int main() {
    std::string line;
    while (std::getline(std::cin, line)) {
        std::string answer;
        for (int stop : tour(points_in(line))) answer += (answer.empty() ? "[" : ",") + std::to_string(stop);
        std::cout << answer << "]" << std::endl;  // flushed: the next instance comes after this answer
    }
}
