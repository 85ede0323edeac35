#include "server/coordinator/service/etcd_keys.h"

#include <algorithm>

#include "absl/strings/ascii.h"
#include "absl/strings/numbers.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "absl/strings/strip.h"
#include "common/require.h"

namespace strata::server {
namespace {

constexpr size_t kClusterBytesMax = 64;
constexpr size_t kJobDigits = 10;
constexpr size_t kBlockDigits = 20;

template <typename Number>
std::optional<Number> NumberBehind(absl::string_view key, const std::string& prefix,
                                   size_t digits) {
  Number number = 0;
  const bool fits = absl::ConsumePrefix(&key, prefix) && key.size() == digits &&
                    std::all_of(key.begin(), key.end(), absl::ascii_isdigit) &&
                    absl::SimpleAtoi(key, &number);
  return fits ? std::optional<Number>(number) : std::nullopt;
}

}  // namespace

absl::Status EtcdKeys::CheckCluster(const std::string& cluster) {
  const auto may_be = [](unsigned char c) {
    return absl::ascii_isalnum(c) || c == '.' || c == '_' || c == '-';
  };
  if (cluster.empty() || cluster.size() > kClusterBytesMax ||
      !std::all_of(cluster.begin(), cluster.end(), may_be)) {
    return absl::InvalidArgumentError(
        absl::StrFormat("cluster name \"%s\": write 1 to %d letters, digits, '.', '_' and '-'",
                        cluster, kClusterBytesMax));
  }
  return absl::OkStatus();
}

EtcdKeys::EtcdKeys(const std::string& cluster) : prefix_(absl::StrCat("strata/", cluster, "/")) {
  STRATA_REQUIRE(CheckCluster(cluster).ok());
}

std::string EtcdKeys::Job(JobId job) const {
  return absl::StrCat(Jobs(), absl::StrFormat("%010d", job.value()));
}

std::optional<JobId> EtcdKeys::JobOf(absl::string_view key) const {
  const auto id = NumberBehind<uint32_t>(key, Jobs(), kJobDigits);
  return id.has_value() ? std::optional<JobId>(JobId(*id)) : std::nullopt;
}

std::string EtcdKeys::Parts(JobId job) const {
  return absl::StrCat(PartsOfAll(), absl::StrFormat("%010d", job.value()), "/");
}

std::string EtcdKeys::PartSetIn(const std::string& parts, const std::string& set) {
  return absl::StrCat(parts, set, "/");
}

std::string EtcdKeys::PartIn(const std::string& parts, const std::string& set, uint32_t number) {
  return absl::StrCat(PartSetIn(parts, set), absl::StrFormat("%06d", number));
}

std::string EtcdKeys::SeenBlock(uint64_t number) const {
  return absl::StrCat(SeenBlocks(), absl::StrFormat("%020d", number));
}

std::optional<uint64_t> EtcdKeys::SeenBlockOf(absl::string_view key) const {
  return NumberBehind<uint64_t>(key, SeenBlocks(), kBlockDigits);
}

std::string EtcdKeys::EndOf(std::string prefix) {
  STRATA_REQUIRE(!prefix.empty() && prefix.back() == '/');
  prefix.back() = '/' + 1;
  return prefix;
}

}  // namespace strata::server
