"""Answers to right and wrong tokens while many calls send wrong ones."""

import pytest

from jetbridge.errors import Unavailable
from jetbridge.service.admission import authentication
from jetbridge.service.admission.authentication import FailedLogins

GUESSER, OTHER = "ipv4:192.0.2.1:4000", "ipv4:192.0.2.2:4000"


def test_only_an_address_that_has_guessed_is_refused_a_right_token():
    logins = FailedLogins()
    logins.note(GUESSER)
    with pytest.raises(Unavailable, match="too many calls with unknown tokens"):
        logins.admit("ipv4:192.0.2.1:4001", "ada", crowded=True)
    logins.admit(OTHER, "ada", crowded=True)
    logins.admit(GUESSER, "ada", crowded=False)


def test_a_token_that_was_used_from_an_address_goes_on_there():
    logins = FailedLogins()
    logins.admit(GUESSER, "ada", crowded=False)
    logins.note(GUESSER)
    logins.admit(GUESSER, "ada", crowded=True)
    with pytest.raises(Unavailable):
        logins.admit(GUESSER, "bob", crowded=True)


def test_with_more_guessers_than_are_remembered_everybody_may_be_one(monkeypatch):
    monkeypatch.setattr(authentication, "_MOST_KNOWN", 3)
    logins = FailedLogins()
    for number in range(4):
        logins.note(f"ipv4:198.51.100.{number}:4000")
    with pytest.raises(Unavailable):
        logins.admit(OTHER, "ada", crowded=True)
