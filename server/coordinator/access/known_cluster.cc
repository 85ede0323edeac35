#include "server/coordinator/access/known_cluster.h"

#include <algorithm>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/statusor.h"
#include "absl/strings/ascii.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "absl/strings/str_split.h"
#include "absl/strings/strip.h"
#include "common/os/atomic_file.h"

namespace strata::server {
namespace {

constexpr size_t kBytesMax = 256;
constexpr size_t kIdDigits = 16;

struct Known {
  std::string name;
  std::string id;
};

std::string FileOf(const std::string& state_dir) { return state_dir + "/etcd_cluster"; }

// Reads "NAME ID\n"; nullopt: the folder belongs to no cluster yet.
absl::StatusOr<std::optional<Known>> ReadKnown(const std::string& file) {
  const absl::StatusOr<std::string> text = ReadFile(file, kBytesMax);
  if (absl::IsNotFound(text.status())) return std::nullopt;
  if (!text.ok()) return text.status();
  absl::string_view line = *text;
  const bool is_whole = absl::ConsumeSuffix(&line, "\n");
  const std::vector<std::string> words = absl::StrSplit(line, ' ');
  if (!is_whole || words.size() != 2 || words[0].empty() || !IsClusterId(words[1])) {
    return absl::DataLossError(
        absl::StrCat(file, ": is damaged: no name of a cluster and its id of 16 digits"));
  }
  return Known{words[0], words[1]};
}

// "cluster NAME (ID)"
std::string Named(const std::string& name, const std::string& id) {
  return absl::StrCat("cluster ", name, " (", id, ")");
}

constexpr char kNone[] = "none";
constexpr size_t kDigits = 64;  // SHA-256

bool IsFingerprint(const std::string& text) {
  return text.size() == kDigits && std::all_of(text.begin(), text.end(), absl::ascii_isxdigit);
}

bool Has(const std::vector<std::string>& roots, const std::string& root) {
  return std::find(roots.begin(), roots.end(), root) != roots.end();
}

absl::Status Another(const std::string& theirs, const std::string& own) {
  return absl::FailedPreconditionError(absl::StrCat(
      "belongs to a cluster ", theirs, ", and this coordinator ", own,
      ": take STATE/keys from a coordinator of that cluster, or name another cluster"));
}

}  // namespace

bool IsClusterId(absl::string_view id) {
  return id.size() == kIdDigits && std::all_of(id.begin(), id.end(), absl::ascii_isxdigit);
}

absl::Status KeepToCluster(const std::string& state_dir, const ClusterInEtcd& found) {
  const std::string file = FileOf(state_dir);
  const absl::StatusOr<std::optional<Known>> known = ReadKnown(file);
  if (!known.ok()) return known.status();
  if (!known->has_value()) {
    if (found.id.empty()) return absl::OkStatus();
    return WriteFileAtomically(file, absl::StrCat(found.name, " ", found.id, "\n"));
  }
  if ((*known)->id == found.id) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      file, ": this folder is of ", Named((*known)->name, (*known)->id), ", and ", found.etcd,
      " has ",
      found.id.empty() ? absl::StrCat("no cluster ", found.name) : Named(found.name, found.id),
      ": name the etcd and cluster that it is of, or another folder with --state"));
}

absl::Status RequireStandaloneState(const std::string& state_dir) {
  const std::string file = FileOf(state_dir);
  const absl::StatusOr<std::optional<Known>> known = ReadKnown(file);
  if (!known.ok()) return known.status();
  if (!known->has_value()) return absl::OkStatus();
  return absl::FailedPreconditionError(
      absl::StrCat(file, ": this folder is of ", Named((*known)->name, (*known)->id),
                   ", whose jobs are in etcd: name that with --etcd, or another folder with "
                   "--state"));
}

std::string RootsValue(const std::vector<std::string>& roots) {
  return roots.empty() ? kNone : absl::StrJoin(roots, ",");
}

absl::Status CheckRoots(const std::string& value, const std::vector<std::string>& roots) {
  std::vector<std::string> known;
  if (value != kNone) known = absl::StrSplit(value, ',');
  if (!std::all_of(known.begin(), known.end(), IsFingerprint)) {
    return absl::DataLossError("is damaged: no fingerprints of an authority");
  }
  if (known.empty() && roots.empty()) return absl::OkStatus();
  if (known.empty()) return Another("without keys", "has some");
  const std::string theirs = absl::StrCat("with the authority ", known.front());
  if (roots.empty()) return Another(theirs, "has no keys");
  if (Has(roots, known.front())) return absl::OkStatus();
  if (Has(known, roots.front())) {
    return absl::FailedPreconditionError(
        absl::StrCat("has the authority ", known.front(), " since it was rotated, and this ",
                     "coordinator the one before: copy STATE/keys from where it was rotated"));
  }
  return Another(theirs, absl::StrCat("has ", roots.front()));
}

}  // namespace strata::server
