#include <cstdint>
#include <nlohmann/json.hpp>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "cli/render/render.h"
#include "cli/render/table.h"
#include "common/counted.h"
#include "server/coordinator/access/policy.h"

namespace strata::cli {
namespace {

constexpr char kTime[] = "%Y-%m-%d %H:%M UTC";

std::string KeysTimeOf(int64_t unix_ms) {
  return absl::FormatTime(kTime, absl::FromUnixMillis(unix_ms), absl::UTCTimeZone());
}

// Empty: another one issues the cluster's certificates.
std::string AuthorityText(const std::string& fingerprint) {
  if (!fingerprint.empty()) return absl::StrCat("SHA-256 ", fingerprint);
  return "one of your own, which issues and renews certificates itself";
}

// Returns the state of a name's newest certificate.
std::string StateOf(const proto::IssuedKey& key, const std::string& authority, absl::Time now) {
  if (key.revoked_ms() != 0 && key.revoked_ms() >= key.begins_ms()) {
    return absl::StrCat("revoked ", KeysTimeOf(key.revoked_ms()));
  }
  if (now >= absl::FromUnixMillis(key.expires_ms())) return "ended";
  return key.authority() == authority ? "good" : "good, of the old authority";
}

// Returns a user's permissions; empty for other roles.
std::string MayText(const proto::IssuedKey& key) {
  if (!key.has_grant()) return "-";
  const std::string& tenant = key.grant().namespace_();
  return absl::StrCat(server::UserRoleName(key.grant().role()),
                      tenant.empty() ? "" : absl::StrCat(" (", tenant, ")"));
}

}  // namespace

std::string KeysText(const proto::ListKeysReply& given, absl::Time now) {
  const proto::ListKeysReply keys = Printable(given);
  if (keys.cluster().empty()) {
    return "no keys: `strata keys init` makes them in the coordinator's state\n";
  }
  std::string text = absl::StrCat("cluster ", keys.cluster(),
                                  "\nauthority: ", AuthorityText(keys.authority()), "\n");
  std::vector<Row> rows;
  for (const proto::IssuedKey& key : keys.keys()) {
    if (rows.empty()) rows.push_back({"ROLE", "NAME", "MAY", "UNTIL", "STATE"});
    rows.push_back({key.role(), key.name(), MayText(key), KeysTimeOf(key.expires_ms()),
                    StateOf(key, keys.authority(), now)});
  }
  const std::string nobody =
      keys.authority().empty() ? "nobody's keys are revoked\n" : "nobody has joined yet\n";
  absl::StrAppend(&text, rows.empty() ? nobody : Table(rows));
  for (const proto::OpenToken& token : keys.tokens()) {
    absl::StrAppend(&text, "open token for ", absl::StrJoin(token.roles(), " or "),
                    token.name().empty() ? "" : " ", token.name(), ": ",
                    Counted(token.uses_left(), "use"), ", until ", KeysTimeOf(token.expires_ms()),
                    "\n");
  }
  return text;
}

std::string KeysJson(const proto::ListKeysReply& keys) {
  nlohmann::ordered_json json;
  json["cluster"] = keys.cluster();
  json["authority"] = keys.authority();
  json["keys"] = nlohmann::ordered_json::array();
  for (const proto::IssuedKey& key : keys.keys()) {
    json["keys"].push_back({{"role", key.role()},
                            {"name", key.name()},
                            {"issued_ms", key.issued_ms()},
                            {"expires_ms", key.expires_ms()},
                            {"revoked_ms", key.revoked_ms()},
                            {"authority", key.authority()}});
    if (!key.has_grant()) continue;
    json["keys"].back()["may"] = server::UserRoleName(key.grant().role());
    json["keys"].back()["namespace"] = key.grant().namespace_();
  }
  json["tokens"] = nlohmann::ordered_json::array();
  for (const proto::OpenToken& token : keys.tokens()) {
    json["tokens"].push_back(
        {{"roles", std::vector<std::string>(token.roles().begin(), token.roles().end())},
         {"name", token.name()},
         {"uses_left", token.uses_left()},
         {"expires_ms", token.expires_ms()}});
  }
  // Bytes that are not UTF-8 become U+FFFD.
  return json.dump(2, ' ', false, nlohmann::ordered_json::error_handler_t::replace) + "\n";
}

}  // namespace strata::cli
