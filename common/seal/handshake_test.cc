#include "common/seal/handshake.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/err.h>

#include <memory>
#include <string>
#include <vector>

#include "absl/strings/str_cat.h"
#include "common/seal/testing/hex.h"

namespace strata::seal {
namespace {

using ::testing::HasSubstr;

constexpr absl::string_view kIdentity = "job 7 attempt 1";

const Secret& JobSecret() {
  static const Secret secret = NewSecret();
  return secret;
}

std::optional<Secret> FindJob(absl::string_view identity) {
  if (identity != kIdentity) return std::nullopt;
  return JobSecret();
}

Salt SaltOf(int fill) {
  Salt salt;
  salt.fill(static_cast<std::byte>(fill));
  return salt;
}

std::unique_ptr<Handshake> Connecting(absl::string_view identity = kIdentity,
                                      const Secret& secret = JobSecret()) {
  return *Handshake::Connect(std::string(identity), secret, SaltOf(1));
}

std::unique_ptr<Handshake> Listening() { return *Handshake::Accept(FindJob, SaltOf(2)); }

// What a whole handshake said, by flight: the connecting side speaks first.
struct Spoken {
  std::vector<std::string> flights;
  absl::Status connecting, listening;
};

// Changes a flight on its way.
using Change = std::function<void(size_t flight, std::string* said)>;

Spoken Talk(Handshake& connecting, Handshake& listening, const Change& change = nullptr) {
  Spoken spoken;
  std::string said;
  spoken.connecting = connecting.Take({}, &said);
  while (!said.empty() && spoken.flights.size() < 10) {
    const bool to_listener = spoken.flights.size() % 2 == 0;
    if (change != nullptr) change(spoken.flights.size(), &said);
    spoken.flights.push_back(said);
    std::string reply;
    absl::Status& status = to_listener ? spoken.listening : spoken.connecting;
    absl::Status taken = (to_listener ? listening : connecting).Take(AsBytes(said), &reply);
    status.Update(taken);
    said = reply;
  }
  return spoken;
}

void ExpectRefused(const absl::Status& status, absl::StatusCode code, absl::string_view why) {
  EXPECT_EQ(status.code(), code) << status;
  EXPECT_THAT(status.message(), HasSubstr(std::string(why)));
  EXPECT_EQ(status.message().find('\n'), absl::string_view::npos);
}

void ExpectDenied(const absl::Status& status, absl::string_view why) {
  ExpectRefused(status, absl::StatusCode::kPermissionDenied, why);
}

void ExpectInvalid(const absl::Status& status, absl::string_view why) {
  ExpectRefused(status, absl::StatusCode::kInvalidArgument, why);
}

bool HaveTheSameKeys(const Handshake& left, const Handshake& right) {
  return left.is_done() && right.is_done() && left.send_key() == right.receive_key() &&
         left.receive_key() == right.send_key();
}

TEST(Handshake, GivesBothSidesTheKeysOfThisConnectionAlone) {
  std::vector<Key> keys;
  for (int i = 0; i < 3; ++i) {
    const auto connecting = Connecting();
    const auto listening = Listening();
    const Spoken spoken = Talk(*connecting, *listening);
    EXPECT_EQ(spoken.connecting, absl::OkStatus());
    EXPECT_EQ(spoken.listening, absl::OkStatus());
    EXPECT_EQ(spoken.flights.size(), 3u);
    ASSERT_TRUE(HaveTheSameKeys(*connecting, *listening));
    EXPECT_EQ(connecting->peer_salt(), SaltOf(2));
    EXPECT_EQ(listening->peer_salt(), SaltOf(1));
    EXPECT_EQ(connecting->identity(), kIdentity);
    EXPECT_EQ(listening->identity(), kIdentity);
    keys.push_back(connecting->send_key());
    keys.push_back(connecting->receive_key());
  }
  for (size_t i = 0; i < keys.size(); ++i) {
    for (size_t k = 0; k < i; ++k) EXPECT_NE(keys[i], keys[k]);
  }
}

TEST(Handshake, TheListenerIsDoneOnlyWhenThePeerHasProvedItself) {
  const auto connecting = Connecting();
  const auto listening = Listening();
  std::string hello, answer, last, nothing;
  ASSERT_TRUE(connecting->Take({}, &hello).ok());
  ASSERT_TRUE(listening->Take(AsBytes(hello), &answer).ok());
  EXPECT_FALSE(listening->is_done());
  EXPECT_DEATH(listening->send_key(), "requirement failed");
  EXPECT_DEATH(listening->identity(), "requirement failed");
  ASSERT_TRUE(connecting->Take(AsBytes(answer), &last).ok());
  EXPECT_TRUE(connecting->is_done());
  ASSERT_TRUE(listening->Take(AsBytes(last), &nothing).ok());
  EXPECT_TRUE(listening->is_done());
  EXPECT_EQ(nothing, "");
}

TEST(Handshake, PiecesOfOneByteAreEnough) {
  const auto connecting = Connecting();
  const auto listening = Listening();
  std::string to_listener, to_connecting;
  ASSERT_TRUE(connecting->Take({}, &to_listener).ok());
  for (size_t i = 0, k = 0; i < to_listener.size() || k < to_connecting.size();) {
    if (i < to_listener.size()) {
      ASSERT_TRUE(listening->Take(AsBytes(to_listener.substr(i++, 1)), &to_connecting).ok());
    } else {
      ASSERT_TRUE(connecting->Take(AsBytes(to_connecting.substr(k++, 1)), &to_listener).ok());
    }
  }
  EXPECT_TRUE(HaveTheSameKeys(*connecting, *listening));
}

TEST(Handshake, AWrongSecretIsRefusedByBoth) {
  const auto connecting = Connecting(kIdentity, NewSecret());
  const auto listening = Listening();
  const Spoken spoken = Talk(*connecting, *listening);
  ExpectDenied(spoken.listening, "does not know the job's secret: binder does not verify");
  ExpectDenied(spoken.connecting, "does not accept our secret");
  EXPECT_FALSE(connecting->is_done() || listening->is_done());
}

TEST(Handshake, AnUnknownIdentityLooksToThePeerAsAWrongSecret) {
  const auto wrong = Connecting(kIdentity, NewSecret());
  const auto to_wrong = Listening();
  const Spoken wrong_secret = Talk(*wrong, *to_wrong);
  const auto unknown = Connecting("job 8 \n");
  const auto to_unknown = Listening();
  const Spoken spoken = Talk(*unknown, *to_unknown);
  ExpectDenied(spoken.listening, "nobody here has the identity \"job 8 \\n\"");
  EXPECT_EQ(spoken.connecting, wrong_secret.connecting);
  EXPECT_EQ(spoken.flights.back(), wrong_secret.flights.back());
}

TEST(Handshake, AnotherSecretOfTheListenerIsRefusedByBoth) {
  const auto connecting = Connecting();
  const auto listening =
      *Handshake::Accept([](absl::string_view) { return NewSecret(); }, SaltOf(2));
  const Spoken spoken = Talk(*connecting, *listening);
  ExpectDenied(spoken.listening, "binder does not verify");
  ExpectDenied(spoken.connecting, "does not accept our secret");
}

TEST(Handshake, AFailedOneStaysFailed) {
  const auto connecting = Connecting(kIdentity, NewSecret());
  const auto listening = Listening();
  const Spoken failed = Talk(*connecting, *listening);
  const auto good = Connecting();
  std::string hello, reply;
  ASSERT_TRUE(good->Take({}, &hello).ok());
  EXPECT_EQ(listening->Take(AsBytes(hello), &reply), failed.listening);
  EXPECT_EQ(listening->Take({}, &reply), failed.listening);
  EXPECT_EQ(connecting->Take({}, &reply), failed.connecting);
  EXPECT_EQ(reply, "");
}

// RFC 8446, 5.1: the version of a record "MUST be ignored for all purposes". Only its second byte
// is, in the first record of a flight; it changes nothing.
bool IsIgnored(size_t flight, size_t at) { return flight < 2 && at == 2; }

TEST(Handshake, AChangedByteAnywhereLeavesNoTwoSidesDone) {
  const auto plain_connecting = Connecting();
  const auto plain_listening = Listening();
  const std::vector<std::string> flights = Talk(*plain_connecting, *plain_listening).flights;
  ASSERT_EQ(flights.size(), 3u);
  for (size_t flight = 0; flight < flights.size(); ++flight) {
    for (size_t at = 0; at < flights[flight].size(); ++at) {
      const auto connecting = Connecting();
      const auto listening = Listening();
      Talk(*connecting, *listening, [&](size_t number, std::string* said) {
        if (number == flight) (*said)[at] ^= static_cast<char>(1 + at % 255);
      });
      const std::string where = absl::StrCat("byte ", at, " of flight ", flight);
      EXPECT_EQ(ERR_peek_error(), 0u) << where;
      EXPECT_EQ(HaveTheSameKeys(*connecting, *listening), IsIgnored(flight, at)) << where;
      // Whom the changed flight goes to takes no keys from it.
      const Handshake& taker = flight == 1 ? *connecting : *listening;
      EXPECT_EQ(taker.is_done(), IsIgnored(flight, at)) << where;
    }
  }
}

TEST(Handshake, ACutOffFlightIsWaitedFor) {
  for (size_t flight = 0; flight < 3; ++flight) {
    for (const size_t left : {1, 5, 40, 100}) {
      const auto connecting = Connecting();
      const auto listening = Listening();
      const Spoken spoken = Talk(*connecting, *listening, [&](size_t number, std::string* said) {
        if (number == flight) said->resize(left);
      });
      EXPECT_EQ(spoken.connecting, absl::OkStatus());
      EXPECT_EQ(spoken.listening, absl::OkStatus());
      EXPECT_FALSE(listening->is_done());
      EXPECT_EQ(spoken.flights.size(), flight + 1);
    }
  }
}

TEST(Handshake, WhatIsNoTlsIsRefused) {
  for (const bool is_connecting : {false, true}) {
    for (const std::string& said :
         {std::string("GET / HTTP/1.1\r\nHost: strata\r\n\r\n"), std::string(300, '\0'),
          std::string("SSH-2.0-OpenSSH_9.2\r\n"), std::string(300, '\xff')}) {
      const auto handshake = is_connecting ? Connecting() : Listening();
      std::string reply;
      ExpectInvalid(handshake->Take(AsBytes(said), &reply), "does not shake hands as Strata does");
      EXPECT_FALSE(handshake->is_done());
      EXPECT_EQ(ERR_peek_error(), 0u);
    }
  }
}

TEST(Handshake, ARecordedConnectionCannotBePlayedAgain) {
  const auto connecting = Connecting();
  const auto listening = Listening();
  const std::vector<std::string> flights = Talk(*connecting, *listening).flights;
  const auto again = Listening();
  std::string answer, last;
  EXPECT_EQ(again->Take(AsBytes(flights[0]), &answer), absl::OkStatus());
  EXPECT_FALSE(again->is_done());
  ExpectDenied(again->Take(AsBytes(flights[2]), &last), "does not know the job's secret");
  EXPECT_FALSE(again->is_done());
  const auto connecting_again = Connecting();
  std::string hello;
  ASSERT_TRUE(connecting_again->Take({}, &hello).ok());
  ExpectDenied(connecting_again->Take(AsBytes(flights[1]), &last),
               "does not know the job's secret");
}

TEST(Handshake, OneThatTalksToItselfIsNotDone) {
  const auto connecting = Connecting();
  std::string hello, reply;
  ASSERT_TRUE(connecting->Take({}, &hello).ok());
  ExpectInvalid(connecting->Take(AsBytes(hello), &reply), "does not shake hands");
}

TEST(Handshake, TooMuchIsRefusedBeforeItIsLookedAt) {
  std::string reply;
  const auto at_once = Listening();
  ExpectInvalid(at_once->Take(AsBytes(std::string(kHandshakeBytesMax + 1, 'x')), &reply),
                "more than belongs to a handshake");
  // A record of 16 KiB that never becomes whole.
  const auto in_pieces = Listening();
  const std::string start = {0x16, 0x03, 0x01, 0x40, 0x00, 0x01, 0x00, 0x3f, '\xfc'};
  ASSERT_TRUE(in_pieces->Take(AsBytes(start), &reply).ok());
  const std::string piece(1000, '\0');
  size_t bytes = start.size();
  for (; bytes + piece.size() <= kHandshakeBytesMax; bytes += piece.size()) {
    ASSERT_TRUE(in_pieces->Take(AsBytes(piece), &reply).ok());
  }
  ExpectInvalid(in_pieces->Take(AsBytes(piece), &reply), "more than belongs to a handshake");
}

TEST(Handshake, BytesAfterTheLastAreRefused) {
  for (const absl::string_view more : {"x", "\x17\x03\x03"}) {
    const auto connecting = Connecting();
    const auto listening = Listening();
    const Spoken spoken = Talk(*connecting, *listening, [&](size_t flight, std::string* said) {
      if (flight == 2) absl::StrAppend(said, more);
    });
    EXPECT_FALSE(spoken.listening.ok());
    EXPECT_FALSE(listening->is_done());
    // Nor once it is done.
    std::string reply;
    EXPECT_EQ(connecting->Take({}, &reply), absl::OkStatus());
    EXPECT_TRUE(connecting->is_done());
    ExpectInvalid(connecting->Take(AsBytes(more), &reply), "more than belongs to a handshake");
    EXPECT_FALSE(connecting->is_done());
  }
}

TEST(Handshake, ErrorsOfOthersInTheThreadAreNotItsOwn) {
  const auto connecting = Connecting();
  const auto listening = Listening();
  const Spoken spoken = Talk(*connecting, *listening, [](size_t, std::string*) {
    ERR_raise(ERR_LIB_SSL, ERR_R_INTERNAL_ERROR);
  });
  EXPECT_EQ(spoken.connecting, absl::OkStatus());
  EXPECT_TRUE(HaveTheSameKeys(*connecting, *listening));
}

TEST(Handshake, AnIdentityHasBounds) {
  for (const size_t bytes : {0, 65, 1000}) {
    ExpectInvalid(Handshake::Connect(std::string(bytes, 'j'), JobSecret(), SaltOf(1)).status(),
                  "an identity has 1 to 64 bytes");
  }
  const std::string longest(64, 'j');
  const auto connecting = Connecting(longest);
  const auto listening = *Handshake::Accept(
      [&](absl::string_view identity) {
        EXPECT_EQ(identity, longest);
        return JobSecret();
      },
      SaltOf(2));
  Talk(*connecting, *listening);
  EXPECT_TRUE(HaveTheSameKeys(*connecting, *listening));
}

TEST(Handshake, AListenerMayHaveASaltForEachIdentity) {
  for (const int attempt : {3, 4}) {
    const auto connecting = Connecting(IdentityOf(7, attempt));
    const auto listening =
        *Handshake::Accept([](absl::string_view identity) -> std::optional<Handshake::Known> {
          return Handshake::Known{JobSecret(), SaltOf(identity.back())};
        });
    Talk(*connecting, *listening);
    ASSERT_TRUE(HaveTheSameKeys(*connecting, *listening));
    EXPECT_EQ(connecting->peer_salt(), SaltOf('0' + attempt));
  }
}

TEST(ConnectionSecret, IsOfOneAttemptAndOneListenerAndNotTheJobsOwn) {
  Secret job;
  job.fill(std::byte{0x0b});
  EXPECT_EQ(IdentityOf(7, 4000000000), "job 7 attempt 4000000000");
  EXPECT_NE(ConnectionSecret(job, 1, "a"), ConnectionSecret(job, 2, "a"));
  EXPECT_NE(ConnectionSecret(job, 1, "a"), ConnectionSecret(job, 1, "b"));
  EXPECT_NE(ConnectionSecret(job, 1, ""), job);
  // Computed by another implementation, as seal_vectors_test.py does.
  EXPECT_EQ(ToHex(ConnectionSecret(job, 258, "tcp://10.0.0.1:7100")),
            "18ef322320a86d47b34cf6bf22004d538d4c4dabb04023c88ca8beb3fdf56f20");
}

}  // namespace
}  // namespace strata::seal
