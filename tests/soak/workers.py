"""x"""
NAME="workers"
def attack(t,o):
    pass
