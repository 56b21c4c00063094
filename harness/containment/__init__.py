"""What is done to a contestant directly after the fork, one layer a file. Linux only; the standard library only.

namespaces → root → landlock → limits → privileges → syscalls: in this order, because each needs what the next takes away.
Each layer raises OSError where the system refuses it, and works alone; what a contestant got is in every record.
"""
