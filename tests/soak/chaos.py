"""x"""
NAME="chaos"
def attack(t,o):
    pass
