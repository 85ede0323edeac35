#ifndef STRATA_COMMON_TRANSPORT_REGION_REGION_IMPORTS_H_
#define STRATA_COMMON_TRANSPORT_REGION_REGION_IMPORTS_H_

#include <cstddef>
#include <functional>
#include <memory>
#include <vector>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/transport/region/shared_segment.h"
#include "common/unique_fd.h"
#include "common/wire/region_reference.h"

namespace strata::transport {

// A peer's memory, in which its references are looked up. It lives as long as bytes of it do; then,
// or with the process, the line to the peer is shut on this side, which tells the peer that nothing
// of its memory is needed any more.
//
// Threads: Take from one; bytes may be released anywhere.
class RegionImports : public std::enable_shared_from_this<RegionImports> {
 public:
  // What it has handed over. `board` is written to.
  struct Parts {
    std::vector<std::shared_ptr<SharedSegment>> segments;
    std::shared_ptr<SharedSegment> board;
  };
  // REQUIRES: the board holds RegionExports::kBoardBytes. `line` is shared with the other side of
  // the same session.
  RegionImports(Parts parts, std::shared_ptr<UniqueFd> line);
  ~RegionImports();

  // The bytes that are meant, without a copy. Errors: InvalidArgument: outside of the memory.
  absl::StatusOr<Bytes> Take(const wire::RegionReference& reference);

 private:
  void Release(uint32_t slot, uint64_t ticket);

  const Parts parts_;
  const std::shared_ptr<UniqueFd> line_;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_REGION_REGION_IMPORTS_H_
