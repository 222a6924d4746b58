"""Restrictions of the splittable DoFns in several suites: ranges of numbers, counted through."""

from apache_beam.io.restriction_trackers import OffsetRange, OffsetRestrictionTracker
from apache_beam.transforms.core import RestrictionProvider


class UnboundedTracker(OffsetRestrictionTracker):
    """An offset range that does not end by itself."""

    def is_bounded(self):
        """By Beam's default such a restriction is dropped by a drain."""
        return False


class Bounded(RestrictionProvider):
    """The numbers below the element."""

    def create_tracker(self, restriction):
        """Counts through the range."""
        return OffsetRestrictionTracker(restriction)

    def initial_restriction(self, element):
        """From 0."""
        return OffsetRange(0, element)

    def restriction_size(self, element, restriction):
        """One for each number."""
        return restriction.size()


class Unbounded(Bounded):
    """As many numbers as there are; a drain drops what is left."""

    def create_tracker(self, restriction):
        """Counts until told to stop."""
        return UnboundedTracker(restriction)
