#ifndef STRATA_SERVER_SHARD_CHUNK_CHUNK_COPY_H_
#define STRATA_SERVER_SHARD_CHUNK_CHUNK_COPY_H_

#include <cstdint>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "common/bytes.h"
#include "google/protobuf/repeated_ptr_field.h"
#include "kernels/kernels.h"
#include "server/shard/chunk/accumulator.h"
#include "server/shard/chunk/chunk_copy.pb.h"

namespace strata::server {

// All that a chunk is at one moment, with what it has of clocks that are not complete: another copy
// of it goes on from there as this one does. Vectors are handed on, not copied: none of them
// changes any more.
struct ChunkCopy {
  proto::ChunkCopy head;
  std::vector<Bytes> vectors;  // by their number, less 1

  // Returns the number of a vector that is to go along; 0: it is empty. The same memory goes once.
  uint32_t Add(const Bytes& vector);
  void Add(const std::vector<SumPart>& parts,
           google::protobuf::RepeatedPtrField<proto::CopiedPart>* to);
  uint64_t bytes() const;  // of all vectors
};

// Reads a copy that a peer has said: whatever it is, nothing breaks. The first thing that is wrong
// stays as status(), and what is read then is empty.
//
// Threads: one.
class ChunkCopyReader {
 public:
  // Both outlive it; the chunk has so many elements.
  ChunkCopyReader(const ChunkCopy& copy, const kernels::Kernels& kernels, uint32_t elements)
      : copy_(copy), kernels_(kernels), elements_(elements) {}

  const proto::ChunkCopy& head() const { return copy_.head; }
  // fp32, as many as the chunk has elements; empty: there is none, which `what` may be.
  Bytes Floats(uint32_t number, const char* what);
  // The same, and there is one.
  Bytes SomeFloats(uint32_t number, const char* what);
  // As it is.
  Bytes Vector(uint32_t number, const char* what);
  // Parts of a sum, with values that are right by themselves.
  std::vector<SumPart> Parts(const google::protobuf::RepeatedPtrField<proto::CopiedPart>& parts);

  void Fail(std::string what);
  void Fail(const absl::Status& status) {
    if (!status.ok()) Fail(std::string(status.message()));
  }
  // Errors: InvalidArgument naming what is wrong.
  const absl::Status& status() const { return status_; }
  bool ok() const { return status_.ok(); }

 private:
  const ChunkCopy& copy_;
  const kernels::Kernels& kernels_;
  const uint32_t elements_;
  absl::Status status_;
};

}  // namespace strata::server

#endif  // STRATA_SERVER_SHARD_CHUNK_CHUNK_COPY_H_
