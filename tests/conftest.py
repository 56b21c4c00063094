"""What all tests share: time limits of hypothesis would fail on a busy machine, and prove nothing."""

from hypothesis import settings

settings.register_profile("gauntlet", deadline=None, print_blob=True)
settings.load_profile("gauntlet")
