#ifndef STRATA_COMMON_TRANSPORT_REGION_REGION_SESSION_H_
#define STRATA_COMMON_TRANSPORT_REGION_REGION_SESSION_H_

#include <cstddef>
#include <cstdint>
#include <memory>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/require.h"
#include "common/transport/region/region_exports.h"
#include "common/transport/region/region_imports.h"
#include "common/transport/region/region_line.h"
#include "common/unique_fd.h"
#include "common/wire/frame.h"

namespace strata::transport {

// Shared memory with one peer of this host, that goes with one connection: what is sent over the
// connection may refer to it. Order of events: the one who has connected sends a greeting with its
// memory over the line; the listener answers with its own and with the session's number; the first
// says that number over the connection (ATTACH), so that both know which connection the memory
// belongs to; ATTACH_OK ends it. Until then, and for what does not lie in the memory, payloads go
// with the frames.
//
// Threads: one.
class RegionSession {
 public:
  // Payloads below this go with the frame: a reference would cost as much.
  static constexpr size_t kReferredBytesMin = 4096;

  // `line` leads to a peer. Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<RegionSession>> Create(
      UniqueFd line, std::shared_ptr<const RegionMemory> memory);
  // Use Create.
  RegionSession(UniqueFd line, std::shared_ptr<const RegionMemory> memory,
                std::unique_ptr<RegionExports> exports);

  int fd() const { return line_->get(); }
  uint64_t number() const { return number_; }
  // The peer's memory is known.
  bool has_met() const { return imports_ != nullptr; }

  // Sends our greeting. Errors: ResourceExhausted, Unavailable.
  absl::Status Greet(uint64_t number);
  // Takes the peer's, if it has come; has_met() then. Errors: InvalidArgument, Unavailable,
  // ResourceExhausted: there will be no shared memory with it.
  absl::Status Hear();

  // Lets payloads be referred to from now on: the peer has met us, too. REQUIRES: has_met().
  void Attach() {
    STRATA_REQUIRE(has_met());
    is_attached_ = true;
  }

  // Puts a reference in the place of the payload, where that is possible.
  void Refer(wire::Frame* frame);
  // Puts the payload in the place of the reference, in a frame that Decode has accepted.
  // Errors: InvalidArgument: no session yet, or a reference outside of the peer's memory.
  absl::Status Resolve(wire::Frame* frame);

  // What the peer needs no more is let go.
  void Sweep() { exports_->Sweep(); }
  // The connection is gone: nothing more is taken from the peer's memory.
  void Leave() { imports_ = nullptr; }
  // The peer needs nothing any more.
  bool IsOver() const { return exports_->kept() == 0 || HasEnded(*line_); }

 private:
  const std::shared_ptr<UniqueFd> line_;
  const std::shared_ptr<const RegionMemory> memory_;
  const std::unique_ptr<RegionExports> exports_;
  std::shared_ptr<RegionImports> imports_;
  uint64_t number_ = 0;
  bool is_attached_ = false;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_REGION_REGION_SESSION_H_
