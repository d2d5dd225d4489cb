"""Whether a relay's watch is trusted: failures in a row, pauses, demotion, trials.

Plain bookkeeping on a clock that is handed in: it decides when the next window may be sent, and
whether polling from outside has to stand in for it meanwhile.
"""

from __future__ import annotations

from relay.engine.telemetry import log
from relay.remote.limits import Random, RemoteLimits, backoff

#: Seconds until a demoted relay is tried again: the first time, and at most.
TRIAL_FIRST = 60.0
TRIAL_LONGEST = 3600.0


class Health:
    """The state of one relay's watch.

    Args:
        name: the relay, for log lines.
        random: a source of jitter.
    """

    def __init__(self, name: str, random: Random) -> None:
        self._name = name
        self._random = random
        self.failures = 0
        #: Whether a request was missed since the last one that was found.
        self.missed = False
        #: When the next window may be sent; while demoted, when the trial is.
        self.retry_at = 0.0
        self.demoted = False
        self._trial_pause = TRIAL_FIRST

    def succeed(self, *, found: bool) -> None:
        """A window ended as it should; ``found`` is whether it brought a request.

        One that brought none does not make up for a request that was missed.
        """
        if self.missed and not found and not self.demoted:
            return
        if self.demoted:
            log.info("stage=relay_promoted %s: the remote watch works again", self._name)
        self.reset()

    def reset(self) -> None:
        """Forget everything: somebody has switched the watch off and on."""
        self.failures = 0
        self.missed = False
        self.retry_at = 0.0
        self.demoted = False
        self._trial_pause = TRIAL_FIRST

    def fail(self, why: str, now: float, limits: RemoteLimits) -> bool:
        """Count a failure; True where it demotes the relay.

        Args:
            why: what went wrong, for the log.
            now: monotonic seconds.
            limits: the settings in force.
        """
        self.failures += 1
        if self.demoted:
            self.retry_at = now + self._trial_pause
            self._lengthen()
            log.info("%s: the remote watch failed its trial: %s", self._name, why)
            return False
        if self.failures >= limits.demote_after:
            self._demote(why, now)
            return True
        pause = backoff(limits, self.failures, self._random)
        self.retry_at = now + pause
        log.info("%s: the remote watch failed: %s; again in %.1f s", self._name, why, pause)
        return False

    def excuse(self, now: float) -> None:
        """Nobody was reachable and now somebody is: there is no reason to wait any longer."""
        self.retry_at = min(self.retry_at, now)

    def change(self, now: float, limits: RemoteLimits) -> bool:
        """Go by new settings; True where they demote the relay."""
        if not self.demoted and self.failures >= limits.demote_after:
            self._demote("RELAY_DEMOTE_AFTER was lowered", now)
            return True
        if not self.demoted and self.failures:
            self.retry_at = min(self.retry_at, now + limits.backoff_max)
        return False

    def _demote(self, why: str, now: float) -> None:
        self.demoted = True
        log.warning(
            "stage=relay_demoted %s: the remote watch failed %d times in a row, last: %s; polling, "
            "next trial in %.0f s",
            self._name,
            self.failures,
            why,
            self._trial_pause,
        )
        self.retry_at = now + self._trial_pause
        self._lengthen()

    def _lengthen(self) -> None:
        self._trial_pause = min(self._trial_pause * 2, TRIAL_LONGEST)
