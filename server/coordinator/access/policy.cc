#include "server/coordinator/access/policy.h"

#include <utility>
#include <vector>

#include "absl/strings/ascii.h"
#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_replace.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/keys/identity.h"
#include "common/os/message_bounds.h"
#include "common/text_error.h"
#include "google/protobuf/text_format.h"

namespace strata::server {
namespace {

using google::protobuf::TextFormat;
using Tree = TextFormat::ParseInfoTree;

// The rights of everybody if the policy lists nobody.
constexpr UserRole kRoleOfAll = proto::UserPolicy::RUN_PROGRAMS;

// Text of a file ends up in one-line messages.
std::string OnOneLine(std::string text) {
  for (char& c : text) {
    if (absl::ascii_iscntrl(static_cast<unsigned char>(c))) c = '?';
  }
  return text;
}

std::string Roles() {
  std::vector<std::string> names;
  for (int i = 0; i < proto::UserPolicy::Role_descriptor()->value_count(); ++i) {
    names.push_back(proto::UserPolicy::Role_descriptor()->value(i)->name());
  }
  return absl::StrJoin(names, ", ");
}

std::string WithRoles(const std::string& message) {
  const bool is_enum = absl::StartsWith(message, "Unknown enumeration value");
  return is_enum ? absl::StrCat(message, " It is one of ", Roles(), ".") : message;
}

// Reads one entry of the file, and reports errors with their location.
class Reader {
 public:
  // The entry is element `index`, from 0, of the ClusterPolicy field `list`; index -1: the field is
  // not a list.
  Reader(const std::string& source, const Tree& file, const char* list, int index,
         const proto::UserPolicy& user)
      : source_(source), user_(user) {
    const auto* field = proto::ClusterPolicy::descriptor()->FindFieldByName(list);
    begins_ = file.GetLocation(field, index);
    tree_ = file.GetTreeForNested(field, index);
  }

  // Returns "FILE:LINE:COLUMN: FIELD: why" with the location of the field, or else of the entry.
  absl::Status Wrong(const char* field, int index, const std::string& why) const {
    const auto* descriptor = proto::UserPolicy::descriptor()->FindFieldByName(field);
    TextFormat::ParseLocation at;
    if (tree_ != nullptr) at = tree_->GetLocation(descriptor, index);
    if (at.line < 0) at = begins_;
    return absl::InvalidArgumentError(OnOneLine(
        absl::StrCat(source_, ":", at.line + 1, ":", at.column + 1, ": ", field, ": ", why)));
  }
  absl::StatusOr<UserRights> Read() const {
    if (!user_.has_role()) {
      return Wrong("role", -1, absl::StrCat("is required", OfUser(), ": one of ", Roles()));
    }
    if (!proto::UserPolicy::Role_IsValid(user_.role())) {
      return Wrong("role", -1, absl::StrCat(user_.role(), " is none of ", Roles()));
    }
    if (!user_.namespace_().empty()) {
      const absl::Status good = keys::CheckName(user_.namespace_());
      if (!good.ok()) return Wrong("namespace", -1, std::string(good.message()));
    }
    UserRights rights{user_.role(), user_.namespace_(), user_.slots()};
    for (int i = 0; i < user_.path_prefixes_size(); ++i) {
      absl::StatusOr<std::string> prefix = NormalPath(user_.path_prefixes(i));
      if (!prefix.ok()) {
        return Wrong("path_prefixes", i,
                     absl::StrCat("\"", user_.path_prefixes(i), "\": ", prefix.status().message()));
      }
      rights.path_prefixes.push_back(*std::move(prefix));
    }
    return rights;
  }

 private:
  std::string OfUser() const {
    return user_.name().empty() ? "" : absl::StrCat(" of user ", user_.name());
  }

  const std::string& source_;
  const proto::UserPolicy& user_;
  TextFormat::ParseLocation begins_;
  const Tree* tree_;
};

constexpr absl::string_view kBucket = "s3://";

}  // namespace

std::string UserRoleName(UserRole role) {
  if (!proto::UserPolicy::Role_IsValid(role)) return absl::StrCat("role ", static_cast<int>(role));
  return absl::StrReplaceAll(absl::AsciiStrToLower(proto::UserPolicy::Role_Name(role)),
                             {{"_", "-"}});
}

std::optional<UserRole> ParseUserRole(const std::string& name) {
  for (int i = 0; i < proto::UserPolicy::Role_descriptor()->value_count(); ++i) {
    const auto role =
        static_cast<UserRole>(proto::UserPolicy::Role_descriptor()->value(i)->number());
    if (UserRoleName(role) == name) return role;
  }
  return std::nullopt;
}

absl::StatusOr<Policy> Policy::Parse(const std::string& text, const std::string& source) {
  FirstTextError error(text, source, WithRoles);
  Tree tree;
  TextFormat::Parser parser;
  parser.RecordErrorsTo(&error);
  parser.WriteLocationsTo(&tree);
  proto::ClusterPolicy file;
  if (!parser.ParseFromString(text, &file))
    return absl::InvalidArgumentError(OnOneLine(error.line()));
  if (const absl::Status bounded = CheckBounds(file); !bounded.ok()) {
    return absl::InvalidArgumentError(absl::StrCat(source, ": ", bounded.message()));
  }
  Policy policy;
  policy.allow_plain_ = file.allow_plain();
  policy.trusted_network_ = file.trusted_network();
  for (int i = 0; i < file.users_size(); ++i) {
    const Reader reader(source, tree, "users", i, file.users(i));
    const std::string& name = file.users(i).name();
    if (name.empty()) return reader.Wrong("name", -1, "is required of each of users");
    if (const absl::Status good = keys::CheckName(name); !good.ok()) {
      return reader.Wrong("name", -1, std::string(good.message()));
    }
    absl::StatusOr<UserRights> rights = reader.Read();
    if (!rights.ok()) return rights.status();
    if (!policy.users_.emplace(name, *std::move(rights)).second) {
      return reader.Wrong("name", -1, absl::StrCat("user ", name, " is listed twice"));
    }
  }
  if (!file.has_default_user()) return policy;
  const Reader reader(source, tree, "default_user", -1, file.default_user());
  if (!file.default_user().name().empty()) {
    return reader.Wrong("name", -1, "default_user has none: it is who is not listed");
  }
  absl::StatusOr<UserRights> rights = reader.Read();
  if (!rights.ok()) return rights.status();
  policy.default_user_ = *std::move(rights);
  return policy;
}

UserRights Policy::RightsOf(const std::string& user, const proto::UserGrant* remembered) const {
  const auto listed = users_.find(user);
  if (listed != users_.end()) return listed->second;
  if (remembered != nullptr) return {remembered->role(), remembered->namespace_()};
  if (default_user_.has_value()) return *default_user_;
  return {users_.empty() ? kRoleOfAll : proto::UserPolicy::NONE};
}

absl::StatusOr<std::string> NormalPath(absl::string_view path) {
  if (absl::StrContains(path, '\0')) return absl::InvalidArgumentError("it holds a zero byte");
  const bool in_bucket = absl::StartsWith(path, kBucket);
  if (!in_bucket && !absl::StartsWith(path, "/")) {
    return absl::InvalidArgumentError("it is neither absolute nor s3://BUCKET/PREFIX");
  }
  std::string normal = in_bucket ? "s3:/" : "";
  const std::vector<absl::string_view> parts =
      absl::StrSplit(in_bucket ? absl::StripPrefix(path, kBucket) : path, '/');
  if (in_bucket && (parts[0].empty() || parts[0] == ".")) {
    return absl::InvalidArgumentError("it names no bucket");
  }
  for (const absl::string_view part : parts) {
    if (part == "..") return absl::InvalidArgumentError("it has a part \"..\"");
    if (!part.empty() && part != ".") absl::StrAppend(&normal, "/", part);
  }
  return normal.empty() ? "/" : normal;
}

bool LiesBelow(absl::string_view path, absl::string_view prefix) {
  // The prefix "/" covers the whole file system.
  if (prefix == "/") return absl::StartsWith(path, "/");
  return absl::ConsumePrefix(&path, prefix) && (path.empty() || path[0] == '/');
}

}  // namespace strata::server
