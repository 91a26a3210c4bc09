"""The verb ``check``: is a kernel what its declaration says?"""
