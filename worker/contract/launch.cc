#include "worker/contract/launch.h"

#include "absl/strings/str_cat.h"
#include "common/file/atomic_file.h"
#include "google/protobuf/text_format.h"

namespace strata::client {
namespace {

constexpr size_t kLaunchBytesMax = 16 << 20;

}  // namespace

absl::StatusOr<proto::Launch> ReadLaunch(const std::string& path) {
  absl::StatusOr<std::string> text = ReadFile(path, kLaunchBytesMax);
  if (!text.ok()) return text.status();
  proto::Launch launch;
  if (!google::protobuf::TextFormat::ParseFromString(*text, &launch)) {
    return absl::InvalidArgumentError(absl::StrCat(path, " is not a launch file"));
  }
  if (launch.local_ranks() == 0 || launch.record().job().ranks() == 0) {
    return absl::InvalidArgumentError(absl::StrCat(path, ": names no ranks"));
  }
  return launch;
}

}  // namespace strata::client
