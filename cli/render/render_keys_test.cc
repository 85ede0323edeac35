#include "cli/render/render_keys.h"

#include "gtest/gtest.h"

namespace strata::cli {
namespace {

const absl::Time kNow = absl::FromUnixSeconds(1800000000);  // 2027-01-15T08:00:00Z

proto::ListKeysReply Keys(const std::string& cluster, const std::string& authority) {
  proto::ListKeysReply keys;
  keys.set_cluster(cluster);
  keys.set_authority(authority);
  return keys;
}

proto::IssuedKey* AddWorker(const std::string& authority, proto::ListKeysReply* keys) {
  proto::IssuedKey* key = keys->add_keys();
  key->set_role("worker");
  key->set_name("w1");
  key->set_authority(authority);
  key->set_begins_ms(absl::ToUnixMillis(kNow - absl::Hours(1)));
  key->set_expires_ms(absl::ToUnixMillis(kNow + absl::Hours(1)));
  return key;
}

TEST(RenderKeys, NamesTheAuthorityByItsFingerprint) {
  EXPECT_EQ(KeysText(Keys("blue", "ab12"), kNow),
            "cluster blue\nauthority: SHA-256 ab12\nnobody has joined yet\n");
}

TEST(RenderKeys, SaysWhereAnotherAuthorityIssuesAndThatOnlyRevocationsAreKnown) {
  proto::ListKeysReply keys = Keys("blue", "");
  const std::string head =
      "cluster blue\nauthority: one of your own, which issues and renews certificates itself\n";
  EXPECT_EQ(KeysText(keys, kNow), head + "nobody's keys are revoked\n");
  AddWorker("", &keys)->set_revoked_ms(absl::ToUnixMillis(kNow));
  const std::string text = KeysText(keys, kNow);
  EXPECT_EQ(text.substr(0, head.size()), head);
  EXPECT_NE(text.find("revoked 2027-01-15 08:00 UTC"), std::string::npos) << text;
}

TEST(RenderKeys, SaysWhereThereAreNone) {
  EXPECT_EQ(KeysText(proto::ListKeysReply(), kNow),
            "no keys: `strata keys init` makes them in the coordinator's state\n");
}

TEST(RenderKeys, TellsGoodOldRevokedAndEndedApart) {
  proto::ListKeysReply keys = Keys("blue", "ab12");
  const auto state = [&](const std::string& authority, int64_t revoked_ms, absl::Time now) {
    keys.clear_keys();
    AddWorker(authority, &keys)->set_revoked_ms(revoked_ms);
    std::string text = KeysText(keys, now);
    text.pop_back();
    return text.substr(text.rfind("UTC  ") + 5);
  };
  EXPECT_EQ(state("ab12", 0, kNow), "good");
  EXPECT_EQ(state("cd34", 0, kNow), "good, of the old authority");
  EXPECT_EQ(state("ab12", 0, kNow + absl::Hours(2)), "ended");
  // A certificate that begins after the revocation is a new one.
  EXPECT_EQ(state("ab12", absl::ToUnixMillis(kNow - absl::Hours(2)), kNow), "good");
}

}  // namespace
}  // namespace strata::cli
