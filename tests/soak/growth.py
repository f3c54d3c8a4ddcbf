"""x"""
NAME="growth"
def attack(t,o):
    pass
