#ifndef STRATA_COMMON_CHECKPOINT_RESUME_OBJECT_H_
#define STRATA_COMMON_CHECKPOINT_RESUME_OBJECT_H_

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "common/bytes.h"
#include "common/checkpoint/store.h"
#include "proto/record.pb.h"

namespace strata {

// An object of the checkpoint that a job goes on from.
struct ResumeObject {
  Bytes content;
  std::string path;  // for errors
};

// Reads one, by its index. Errors: InvalidArgument: there is no such; those of Checkpoints::Read.
absl::StatusOr<ResumeObject> ReadResumeObject(const proto::Resume& resume, uint32_t index,
                                              Store& store);

// Hands one on in pieces, as Checkpoints::Read does.
absl::Status ReadResumeObject(const proto::Resume& resume, uint32_t index, Store& store,
                              const Store::TakePiece& take);

}  // namespace strata

#endif  // STRATA_COMMON_CHECKPOINT_RESUME_OBJECT_H_
