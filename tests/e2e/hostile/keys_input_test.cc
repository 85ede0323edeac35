// Invalid certificates and tokens: one line that says what to do, compared as a whole.
#include <filesystem>
#include <string>
#include <vector>

#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/time/clock.h"
#include "common/keys/certificate.h"
#include "common/keys/key_file.h"
#include "common/testing/test_keys.h"
#include "gmock/gmock.h"
#include "gtest/gtest.h"
#include "tests/e2e/hostile/keys_case.h"
#include "tests/e2e/testing/raw_peer.h"
#include "tests/e2e/testing/recording_relay.h"

namespace strata::tests {
namespace {

using keys::Role;
using testing::HasSubstr;

constexpr absl::Duration kMinute = absl::Minutes(1);

class KeysInput : public KeysCase {
 protected:
  // Returns the coordinator's message about a certificate that it refuses.
  std::string NotTaken(const std::string& why) const {
    return absl::StrCat(at_, "it does not take this certificate: ", why);
  }
};

TEST_F(KeysInput, KeysThatCountAreTaken) {
  const std::string good = Keys(Role::kUser, "ada");
  const CommandResult jobs = RunStrata({"jobs", "--coordinator", address_, "--keys", good});
  EXPECT_EQ(jobs.status.code, 0) << jobs.err;
}

TEST_F(KeysInput, AnExpiredCertificateIsToBeHadAnewInTheWayOfItsRole) {
  EXPECT_EQ(Refused({"jobs", "--keys", Keys(Role::kUser, "old", -kHour, -kMinute)}),
            NotTaken(absl::StrCat("the certificate of user old expired at TIME: `strata keys user "
                                  "old`",
                                  kMakesAToken)));
  EXPECT_EQ(RefusedDaemon({"worker", "--keys", Keys(Role::kWorker, "w1", -kHour, -kMinute)}),
            NotTaken(absl::StrCat(
                "the certificate of worker w1 expired at TIME: `strata keys token worker`",
                kMakesAToken)));
  EXPECT_EQ(RefusedDaemon({"server", "--keys", Keys(Role::kServer, "s1", -kHour, -kMinute)}),
            NotTaken(absl::StrCat(
                "the certificate of server s1 expired at TIME: `strata keys token server`",
                kMakesAToken)));
}

TEST_F(KeysInput, ACertificateOfTheFutureSaysWhoseClockIsMeant) {
  EXPECT_EQ(Refused({"jobs", "--keys", Keys(Role::kUser, "early", kHour, 2 * kHour)}),
            NotTaken("the certificate of user early is valid only from TIME, and the "
                     "coordinator's clock says TIME: set the clocks"));
}

TEST_F(KeysInput, TheTimesInALineAreTheCertificates) {
  const CommandResult result = RunStrata(
      {"jobs", "--coordinator", address_, "--keys", Keys(Role::kUser, "old", -kHour, -kMinute)});
  EXPECT_THAT(result.err, HasSubstr("expired at " + keys::TimeText(now_ - kMinute) + ": "));
}

TEST_F(KeysInput, ARevokedCertificateIsToBeHadAnewInTheWayOfItsRole) {
  const std::string ada = Keys(Role::kUser, "ada"), w1 = Keys(Role::kWorker, "w1");
  Operator({"revoke", "ada", "--role", "user"});
  Operator({"revoke", "w1", "--role", "worker"});
  const std::string once = ", which counts once the old key file is removed";
  EXPECT_EQ(Refused({"jobs", "--keys", ada}),
            absl::StrCat("the certificate of user ada was revoked: `strata keys user ada`",
                         kMakesAToken, once));
  EXPECT_EQ(
      RefusedDaemon({"worker", "--keys", w1}),
      absl::StrCat(at_, "the certificate of worker w1 was revoked: `strata keys token worker`",
                   kMakesAToken, once));
}

TEST_F(KeysInput, KeysOfAnotherAuthorityAreRefusedByEitherSide) {
  // The member does not trust the coordinator.
  keys::KeyFolder other(PathOf("other"));
  const auto own = keys::ReadKeyFile(state_ + "/keys/coordinator.pem");
  ASSERT_TRUE(own.ok()) << own.status();
  EXPECT_EQ(Refused({"jobs", "--keys", other.PathOf(Role::kUser, "eve")}),
            absl::StrCat(at_,
                         "what answers there cannot be trusted: the certificate of coordinator "
                         "coordinator is of another cluster or authority (fingerprint ",
                         keys::FingerprintText(own->chain[0].fingerprint()),
                         "): look whether it is the right coordinator; then name its keys with "
                         "--keys, or join with a token of it"));
  // The coordinator does not trust the member, who has the right root.
  keys::KeyFile foreign = keys::MakeKeyFile(
      keys::MakeAuthority("blue", now_), {"blue", Role::kUser, "eve"}, now_ - kHour, now_ + kHour);
  foreign.roots = own->roots;
  ASSERT_TRUE(keys::WriteKeyFile(PathOf("eve.pem"), foreign).ok());
  EXPECT_EQ(Refused({"jobs", "--keys", PathOf("eve.pem")}),
            NotTaken(absl::StrCat("the certificate of user eve is of another cluster or authority "
                                  "(fingerprint ",
                                  keys::FingerprintText(foreign.chain[0].fingerprint()),
                                  "): `strata keys user eve`", kMakesAToken)));
}

TEST_F(KeysInput, KeysOfAnotherRoleOrNameSayWhichOnesToUse) {
  EXPECT_EQ(Refused({"jobs", "--keys", Keys(Role::kWorker, "w1")}),
            "worker w1 may not look at jobs: use a user's keys (`strata keys join`)");
  const std::string s1 = Keys(Role::kServer, "s1"), w2 = Keys(Role::kWorker, "w2");
  EXPECT_EQ(RefusedDaemon({"worker", "--keys", s1}),
            s1 + ": is of server s1, not of a worker: name another file with --keys");
  EXPECT_EQ(RefusedDaemon({"worker", "--keys", w2, "--name", "w3"}),
            w2 + ": is of worker w2, not of a worker w3: say --name w2, or name another file with "
                 "--keys");
}

TEST_F(KeysInput, WhoShowsNoCertificateIsToldHowToGetOne) {
  const std::string none = absl::StrCat(
      at_,
      "there are no keys for it: with a token of its operator `strata keys join` gets a user some, "
      "and --join-file a daemon; --insecure does without, where everybody on the network may be "
      "trusted");
  EXPECT_EQ(Refused({"jobs"}), none);
  EXPECT_EQ(RefusedDaemon({"worker"}), none);
  const std::string insecure = absl::StrCat(
      "coordinator at ", address_,
      " cannot be reached (tried for 2s): something listens there that is no coordinator, or one "
      "that wants keys: leave out --insecure");
  EXPECT_EQ(Refused({"jobs", "--insecure"}, "2"), insecure);
  EXPECT_EQ(RefusedDaemon({"worker", "--insecure"}, "2"), insecure);
  EXPECT_EQ(RefusedDaemon({"server", "--insecure"}, "2"), insecure);
}

TEST_F(KeysInput, AUsedTokenIsToBeMadeAnewInTheWayOfItsRole) {
  const std::string worker = Token("w.token", {"token", "worker"});
  const std::string user = Token("ada.token", {"user", "ada"});
  const auto joined = [&](std::vector<std::string> args) {
    args.insert(args.end(), {"--coordinator", address_});
    EXPECT_EQ(RunStrata(args).status.code, 0);
  };
  joined({"keys", "join", "--join-file", worker, "--role", "worker", "--name", "w1", "--keys",
          PathOf("w1.pem")});
  joined({"keys", "join", "--join-file", user, "--keys", PathOf("ada.pem")});
  const std::string unknown =
      "the token is not known: it was used already, is too late, was closed or is of another "
      "cluster; ";
  EXPECT_EQ(Join(worker, {"--role", "worker", "--name", "w2", "--keys", PathOf("w2.pem")}),
            unknown + "`strata keys token worker` makes a new one");
  EXPECT_EQ(Join(user, {"--keys", PathOf("x.pem")}),
            unknown + "`strata keys user NAME` makes a new one");
  EXPECT_EQ(Join(user, {"--name", "ada", "--keys", PathOf("x.pem")}),
            unknown + "`strata keys user ada` makes a new one");
  EXPECT_EQ(RefusedDaemon({"worker", "--join-file", worker, "--name", "w2"}),
            unknown + "`strata keys token worker` makes a new one");
  EXPECT_FALSE(std::filesystem::exists(PathOf("x.pem")));
}

TEST_F(KeysInput, ATokenThatIsTooLateIsToBeMadeAnewInTheWayOfItsRole) {
  // One after another: a later token makes the coordinator forget the expired ones.
  const auto late = [&](std::vector<std::string> args) {
    args.insert(args.end(), {"--ttl", "1s"});
    const std::string token = Token("late.token", args);
    absl::SleepFor(absl::Milliseconds(1100));
    return token;
  };
  EXPECT_EQ(Join(late({"token", "worker"}),
                 {"--role", "worker", "--name", "w1", "--keys", PathOf("w1.pem")}),
            "the token was good until TIME: `strata keys token worker` makes a new one");
  EXPECT_EQ(Join(late({"user", "ada"}), {"--keys", PathOf("ada.pem")}),
            "the token was good until TIME: `strata keys user ada` makes a new one");
}

// An eavesdropper replays everything that a worker sent when it joined.
TEST_F(KeysInput, AJoinThatIsSaidAgainOnTheWireGivesNothingAndUsesUpNoToken) {
  const std::string token = Token("w.token", {"token", "worker", "--uses", "2"});
  int port = 0;
  ASSERT_TRUE(absl::SimpleAtoi(address_.substr(address_.rfind(':') + 1), &port));
  RecordingRelay relay(port, {.recorded_max = 1 << 20});
  const auto join = [&](const std::string& name) {
    return RunStrata({"keys", "join", "--join-file", token, "--role", "worker", "--name", name,
                      "--keys", PathOf(name + ".pem"), "--coordinator", relay.address()});
  };
  const std::string name = "a-name-that-no-cipher-hits";
  const CommandResult joined = join(name);
  ASSERT_EQ(joined.status.code, 0) << joined.err;
  const std::string before = Operator({"list"});
  EXPECT_THAT(before, HasSubstr(name));
  std::vector<std::string> said = relay.said();
  std::erase(said, "");
  ASSERT_FALSE(said.empty());
  for (const std::string& copy : said) {
    EXPECT_GT(copy.size(), 500u);
    EXPECT_EQ(copy.find(name), std::string::npos) << "in the clear";
    for (const size_t part : {copy.size(), copy.size() / 2}) {
      RawPeer peer = RawPeer::ToPort(port);
      ASSERT_TRUE(peer.connected());
      peer.SendAll(copy.substr(0, part));
      // TLS ends what it cannot parse; it waits for the rest of half a handshake.
      for (int i = 0; i < 500 && part == copy.size() && !peer.IsClosed(); ++i) {
        absl::SleepFor(absl::Milliseconds(10));
      }
      EXPECT_TRUE(part < copy.size() || peer.IsClosed());
    }
  }
  EXPECT_EQ(Operator({"list"}), before);
  const CommandResult second = join("w2");
  EXPECT_EQ(second.status.code, 0) << second.err;
  EXPECT_NE(join("w3").status.code, 0) << "it was good twice";
}

TEST_F(KeysInput, ATokenForSomebodyElseSaysWhatMakesTheRightOne) {
  const std::string worker = Token("w.token", {"token", "worker"});
  EXPECT_EQ(
      Join(worker, {"--name", "ada", "--keys", PathOf("ada.pem")}),
      "the token is for a worker, not for a user: `strata keys user ada` makes one for a user");
  EXPECT_EQ(Join(Token("ada.token", {"user", "ada"}),
                 {"--role", "worker", "--name", "w1", "--keys", PathOf("w1.pem")}),
            "the token is for a user, not for a worker: `strata keys token worker` makes one for a "
            "worker");
  EXPECT_EQ(Join(Token("w5.token", {"token", "worker", "--name", "w5"}),
                 {"--role", "worker", "--name", "w6", "--keys", PathOf("w6.pem")}),
            "the token is for worker w5, not for worker w6: join with --name w5, or with a token "
            "of `strata keys token worker` with --name w6");
  ASSERT_EQ(RunStrata({"keys", "join", "--join-file", worker, "--role", "worker", "--name", "w1",
                       "--keys", PathOf("w1.pem"), "--coordinator", address_})
                .status.code,
            0);
  EXPECT_EQ(Join(Token("w.token", {"token", "worker"}),
                 {"--role", "worker", "--name", "w1", "--keys", PathOf("x.pem")}),
            "worker w1 has a certificate already: choose another name with --name, or let the "
            "operator say `strata keys revoke w1` first");
}

TEST_F(KeysInput, WhatIsNoTokenOfThisClusterIsNotSentThere) {
  const std::string path = File("token", "hello");
  EXPECT_EQ(Join(path, {"--keys", PathOf("x.pem")}),
            path + ": this is no token: one begins with \"strata1.\", as `strata keys` prints it");
  File("token", absl::StrCat("strata1.", std::string(43, 'A'), ".", std::string(22, 'A')));
  EXPECT_EQ(Join(path, {"--keys", PathOf("x.pem")}),
            at_ +
                "what answers there is not of the cluster that the token is of: the token is "
                "for another coordinator, or somebody is in between");
  EXPECT_FALSE(std::filesystem::exists(PathOf("x.pem")));
}

}  // namespace
}  // namespace strata::tests
