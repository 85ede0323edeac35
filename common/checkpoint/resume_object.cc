#include "common/checkpoint/resume_object.h"

#include <utility>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_format.h"
#include "common/checkpoint/checkpoints.h"

namespace strata {

absl::StatusOr<ResumeObject> ReadResumeObject(const proto::Resume& resume, uint32_t index,
                                              Store& store) {
  if (index >= static_cast<uint32_t>(resume.objects_size())) {
    return absl::InvalidArgumentError(
        absl::StrFormat("object %d of the checkpoint's %d", index, resume.objects_size()));
  }
  const proto::CheckpointObject& object = resume.objects(static_cast<int>(index));
  absl::StatusOr<Bytes> content = Checkpoints(store).Read(
      {.name = object.name(), .bytes = object.bytes(), .checksum = object.checksum()});
  if (!content.ok()) return content.status();
  return ResumeObject{.content = *std::move(content),
                      .path = absl::StrCat(store.where(), "/", object.name())};
}

}  // namespace strata
