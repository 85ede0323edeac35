#include "kernels/cuda/cudnn/libraries.h"

#include <dlfcn.h>

#include "absl/strings/str_cat.h"
#include "kernels/cuda/find_library.h"
#include "kernels/cuda/plugin_options.h"

namespace strata::cuda {
namespace {

// Finds functions in an open library, until one is missing.
class Functions {
 public:
  Functions(void* library, const char* name) : library_(library), name_(name) {}

  template <typename F>
  Functions& Find(const char* function, F* to) {
    *to = reinterpret_cast<F>(dlsym(library_, function));
    if (*to == nullptr && status_.ok()) {
      status_ = absl::FailedPreconditionError(
          absl::StrCat(name_, " has no function ", function, ": it is of another version"));
    }
    return *this;
  }
  const absl::Status& status() const { return status_; }

 private:
  void* const library_;
  const char* const name_;
  absl::Status status_;
};

// Where the plugin's option says, or else the usual places.
absl::StatusOr<void*> Open(const std::string& file, const std::string& directory) {
  LibraryWish wish = {
      .file = file, .dir = directory, .option = "cudnn", .beside = "nvidia/cu*/lib"};
  const auto found = FindLibrary(wish, PythonPackageFolders());
  if (found.ok()) return found->handle;
  if (!directory.empty()) return found.status();
  wish.dir = "/usr/local/cuda/lib64";
  const auto beside_cuda = FindLibrary(wish, {});
  if (beside_cuda.ok()) return beside_cuda->handle;
  return found.status();
}

absl::StatusOr<const Libraries*> Load(const std::string& directory) {
  // What the others need; each finds it where it is loaded, and does with less where it is missing.
  for (const char* name : {"libnvrtc.so.13", "libcublasLt.so.13"}) {
    (void)Open(name, directory);
  }
  // The option may name where cuDNN alone lies.
  auto cublas = Open("libcublas.so.13", directory);
  if (!cublas.ok()) cublas = Open("libcublas.so.13", "");
  if (!cublas.ok()) return cublas.status();
  const auto cudnn = Open("libcudnn.so.9", directory);
  if (!cudnn.ok()) return cudnn.status();
  static Libraries all;
  const absl::Status of_cudnn = Functions(*cudnn, "libcudnn.so.9")
                                    .Find("cudnnGetVersion", &all.cudnn_version)
                                    .Find("cudnnGetErrorString", &all.cudnn_error_string)
                                    .Find("cudnnGetLastErrorString", &all.cudnn_last_error)
                                    .Find("cudnnCreate", &all.cudnn_create)
                                    .Find("cudnnDestroy", &all.cudnn_destroy)
                                    .Find("cudnnSetStream", &all.cudnn_set_stream)
                                    .Find("cudnnBackendCreateDescriptor", &all.create_descriptor)
                                    .Find("cudnnBackendDestroyDescriptor", &all.destroy_descriptor)
                                    .Find("cudnnBackendSetAttribute", &all.set_attribute)
                                    .Find("cudnnBackendGetAttribute", &all.get_attribute)
                                    .Find("cudnnBackendFinalize", &all.finalize)
                                    .Find("cudnnBackendExecute", &all.execute)
                                    .status();
  if (!of_cudnn.ok()) return of_cudnn;
  const absl::Status of_cublas = Functions(*cublas, "libcublas.so.13")
                                     .Find("cublasCreate_v2", &all.cublas_create)
                                     .Find("cublasDestroy_v2", &all.cublas_destroy)
                                     .Find("cublasSetStream_v2", &all.cublas_set_stream)
                                     .Find("cublasSetWorkspace_v2", &all.cublas_set_workspace)
                                     .Find("cublasGetStatusString", &all.cublas_status_string)
                                     .Find("cublasGemmEx", &all.gemm)
                                     .status();
  if (!of_cublas.ok()) return of_cublas;
  return &all;
}

}  // namespace

absl::StatusOr<const Libraries*> LoadLibraries() {
  static const absl::StatusOr<const Libraries*> libraries = Load(CurrentOptions().cudnn_dir);
  return libraries;
}

}  // namespace strata::cuda
