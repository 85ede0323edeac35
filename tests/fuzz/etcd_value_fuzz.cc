// Values of etcd that a coordinator which begins to lead reads: what is damaged is refused as such,
// in one line; what is read is what was written.
//
// Input: a byte that says what follows: 'h' the size of a split value's head, the head and the
// parts; 'b' a block of registrations; 'r' fingerprints of an authority; 'w' bytes to be written
// and read again.
#include <algorithm>
#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "absl/strings/str_cat.h"
#include "server/coordinator/access/known_cluster.h"
#include "server/coordinator/jobs/stored_job.pb.h"
#include "server/coordinator/service/seen_blocks.h"
#include "server/coordinator/service/split_store.h"
#include "tests/fuzz/check.h"

namespace strata::server {
namespace {

void CheckDamage(const absl::Status& status) {
  FUZZ_CHECK(absl::IsDataLoss(status));
  for (const char c : status.message()) FUZZ_CHECK(static_cast<unsigned char>(c) >= ' ');
}

void Head(const std::string& input) {
  if (input.empty()) return;
  const size_t size = std::min<size_t>(static_cast<unsigned char>(input[0]), input.size() - 1);
  const absl::StatusOr<proto::StoredHead> head = ParseHead(input.substr(1, size));
  if (!head.ok()) return CheckDamage(head.status());
  const absl::StatusOr<std::string> data = Join(*head, input.substr(1 + size));
  if (!data.ok()) return CheckDamage(data.status());
  FUZZ_CHECK(data->size() == head->bytes());
  proto::StoredJob job;
  if (!job.ParseFromString(*data)) return;
  proto::StoredJob again;
  FUZZ_CHECK(again.ParseFromString(job.SerializeAsString()));
}

void Write(const std::string& bytes) {
  const SplitValue value = Split(bytes, "set");
  std::string parts;
  for (const std::string& part : value.parts) parts += part;
  const absl::StatusOr<proto::StoredHead> head = ParseHead(value.head);
  FUZZ_CHECK(head.ok());
  const absl::StatusOr<std::string> read = Join(*head, parts);
  FUZZ_CHECK(read.ok() && *read == bytes);
}

void Block(const std::string& bytes) {
  SeenBlocks seen;
  const absl::Status restored = seen.Restore(7, bytes);
  if (!restored.ok()) {
    FUZZ_CHECK(seen.Newest().empty());
    return CheckDamage(restored);
  }
  const std::vector<SeenBlocks::Entry> newest = seen.Newest();
  FUZZ_CHECK(newest.size() <= SeenBlocks::kBlockEntries);
  // One more daemon is the newest, in a block that can be read.
  const SeenBlocks::Change change = seen.Append({{.daemon_id = 1, .attempt = 2}});
  FUZZ_CHECK(change.blocks.size() == 1 && change.blocks.begin()->first >= 7);
  FUZZ_CHECK(seen.Newest().back().daemon_id == 1 && seen.Newest().back().attempt == 2);
  SeenBlocks next;
  FUZZ_CHECK(next.Restore(8, change.blocks.begin()->second).ok());
}

void Roots(const std::string& value) {
  const std::vector<std::string> own = {std::string(64, 'a')};
  for (const auto& roots : {own, std::vector<std::string>()}) {
    const absl::Status status = CheckRoots(value, roots);
    if (status.ok() || absl::IsFailedPrecondition(status)) continue;
    CheckDamage(status);
  }
  FUZZ_CHECK(CheckRoots(RootsValue(own), own).ok());
}

void Fuzz(char kind, const std::string& rest) {
  if (kind == 'h') Head(rest);
  if (kind == 'w') Write(rest);
  if (kind == 'b') Block(rest);
  if (kind == 'r') Roots(rest);
}

}  // namespace
}  // namespace strata::server

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
  if (size == 0) return 0;
  strata::server::Fuzz(static_cast<char>(data[0]),
                       std::string(reinterpret_cast<const char*>(data) + 1, size - 1));
  return 0;
}
