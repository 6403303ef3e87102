class Node:
    def __init__(self, depth):
        self.children = [Node(depth - 1) for _ in range(3)] if depth else []
        self.name = "node %d" % depth
    def size(self):
        return 1 + sum(child.size() for child in self.children)

kept, total = [], 0
for round in range(6):
    tree = Node(8)
    total += tree.size()
    words = {}
    for number in range(60000):
        key = "word %d" % (number * 7919 % 10007)
        words.setdefault(key, []).append(number)
    kept.append({key: tuple(numbers) for key, numbers in words.items() if len(key) % 3})
    total += sum(len(key) * len(numbers) for key, numbers in words.items())
    if len(kept) > 3:
        kept.pop(0)
print(total, sum(len(one) for one in kept))
