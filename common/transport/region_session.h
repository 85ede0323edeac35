#ifndef STRATA_COMMON_TRANSPORT_REGION_SESSION_H_
#define STRATA_COMMON_TRANSPORT_REGION_SESSION_H_

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/require.h"
#include "common/transport/region_line.h"
#include "common/transport/region_memory.h"
#include "common/transport/shared_segment.h"
#include "common/unique_fd.h"
#include "common/wire/frame.h"
#include "common/wire/region_reference.h"

namespace strata::transport {

// The references given to one peer on this host: the bytes are kept until the peer no longer needs
// them. The peer signals that on a board, a segment with one u64 per slot, by writing the
// reference's ticket there.
//
// Threads: one.
class RegionExports {
 public:
  static constexpr size_t kSlots = 4096;
  static constexpr size_t kBoardBytes = kSlots * sizeof(uint64_t);

  // Errors: ResourceExhausted.
  static absl::StatusOr<std::unique_ptr<RegionExports>> Create(
      std::shared_ptr<const RegionMemory> memory);
  // Use Create.
  RegionExports(std::shared_ptr<const RegionMemory> memory, std::shared_ptr<SharedSegment> board);

  // Returns the board for the peer, once. Errors: ResourceExhausted.
  absl::StatusOr<UniqueFd> HandOverBoard();

  // Keeps the bytes for the peer. nullopt: they are not in the memory, or all slots are in use.
  std::optional<wire::RegionReference> Add(const Bytes& bytes);
  // Releases bytes that the peer no longer needs.
  void Sweep();
  // References that the peer still needs.
  size_t kept() const { return used_.size(); }

 private:
  struct Used {
    uint32_t slot = 0;
    uint64_t ticket = 0;
    Bytes bytes;
  };
  // Only ever written by the peer.
  uint64_t TicketOn(uint32_t slot) const;

  const std::shared_ptr<const RegionMemory> memory_;
  const std::shared_ptr<SharedSegment> board_;
  uint64_t tickets_ = 0;
  std::vector<uint32_t> free_slots_;
  std::vector<Used> used_;
};

// A peer's memory, in which its references are resolved. It lives as long as bytes of it do; then,
// or with the process, this side of the line is shut down, which tells the peer that none of its
// memory is needed.
//
// Threads: Take from one; bytes may be released on any.
class RegionImports : public std::enable_shared_from_this<RegionImports> {
 public:
  // The memory passed by the peer. `board` is written to.
  struct Parts {
    std::vector<std::shared_ptr<SharedSegment>> segments;
    std::shared_ptr<SharedSegment> board;
  };
  // REQUIRES: the board holds RegionExports::kBoardBytes. `line` is shared with the session's other
  // direction.
  RegionImports(Parts parts, std::shared_ptr<UniqueFd> line);
  ~RegionImports();

  // Returns the referenced bytes, without a copy. Errors: InvalidArgument: outside of the memory.
  absl::StatusOr<Bytes> Take(const wire::RegionReference& reference);

 private:
  void Release(uint32_t slot, uint64_t ticket);

  const Parts parts_;
  const std::shared_ptr<UniqueFd> line_;
};

// Memory shared with one peer on this host over one connection, whose frames may refer to it. Order
// of events: HELLO authenticates both sides. The connecting side sends a greeting with its memory
// and a random number over the line, and the number over the connection (ATTACH), so that both know
// which connection the memory belongs to. Only then the listener answers over the line with the
// memory that this peer may read, and reports that (ATTACH_OK); the connecting side maps it and
// reports that, too (ATTACH_OK). Until then, and outside of that memory, payloads travel with their
// frames.
//
// Threads: one.
class RegionSession {
 public:
  // `line` leads to a peer.
  explicit RegionSession(UniqueFd line) : line_(std::make_shared<UniqueFd>(std::move(line))) {}

  int fd() const { return line_->get(); }
  // The number of the first greeting received or sent; 0: none.
  uint64_t number() const { return number_; }
  // Whether the peer's memory is known.
  bool has_met() const { return imports_ != nullptr; }

  // Sends our greeting, once: the peer may read `memory` from now on. Errors: ResourceExhausted,
  // Unavailable.
  absl::Status Greet(uint64_t number, std::shared_ptr<const RegionMemory> memory);
  // Receives the peer's greeting, if it has come; has_met() then. Errors, after which there is no
  // shared memory with it: InvalidArgument (also: of another number than ours), Unavailable,
  // ResourceExhausted.
  absl::Status Hear();

  // Allows references from now on: the peer has our memory, too. REQUIRES: has_met(), Greet.
  void Attach() {
    STRATA_REQUIRE(has_met() && exports_ != nullptr);
    is_attached_ = true;
  }

  bool is_attached() const { return is_attached_; }

  // Replaces the payload by a reference, if possible.
  void Refer(wire::Frame* frame);
  // Replaces the reference by the payload, in a frame that Decode has accepted. Errors:
  // InvalidArgument: no session yet, or a reference outside of the peer's memory.
  absl::Status Resolve(wire::Frame* frame);

  // Releases memory that the peer no longer needs.
  void Sweep() {
    if (exports_ != nullptr) exports_->Sweep();
  }
  // The connection is gone: no more references into the peer's memory are accepted.
  void Leave() { imports_ = nullptr; }
  // Returns whether the peer needs nothing more.
  bool IsOver() const { return exports_ == nullptr || exports_->kept() == 0 || HasEnded(*line_); }

 private:
  const std::shared_ptr<UniqueFd> line_;
  std::unique_ptr<RegionExports> exports_;
  std::shared_ptr<RegionImports> imports_;
  uint64_t number_ = 0;
  bool is_attached_ = false;
};

}  // namespace strata::transport

#endif  // STRATA_COMMON_TRANSPORT_REGION_SESSION_H_
