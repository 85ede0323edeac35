#include "training/trainer/model_file.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "common/file/atomic_file.h"
#include "common/image/safetensors.h"
#include "common/unique_fd.h"

namespace strata::worker {

absl::Status SaveModel(const std::string& path, const ModelSpec& model, const std::string& job,
                       const Tensors& weights, const Tensors& buffers) {
  auto shapes = FollowShapes(model);
  if (!shapes.ok()) return shapes.status();
  std::vector<TensorToSave> tensors;
  size_t weight = 0, buffer = 0;
  for (const LayerShape& layer : *shapes) {
    for (const TensorSpec& tensor : layer.weights) {
      tensors.push_back({tensor.name, tensor.shape, weights[weight++]});
    }
    for (const TensorSpec& tensor : layer.buffers) {
      tensors.push_back({tensor.name, tensor.shape, buffers[buffer++]});
    }
  }
  return WriteSafetensors(path, {{"format", "pt"}, {"job", job}, {"model", model.name}}, tensors);
}

absl::Status CheckWritable(const std::string& dir) {
  const std::string path = absl::StrCat(dir, "/.writable.", getpid());
  const UniqueFd fd(open(path.c_str(), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0644));
  if (!fd.valid()) {
    const int error = errno;
    return absl::Status(FileError(error, dir).code(),
                        absl::StrCat("cannot write to run directory ", dir, ": ", strerror(error)));
  }
  unlink(path.c_str());
  return absl::OkStatus();
}

}  // namespace strata::worker
