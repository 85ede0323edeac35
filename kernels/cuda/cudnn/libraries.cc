#include "kernels/cuda/cudnn/libraries.h"

#include "absl/strings/str_cat.h"
#include "kernels/cuda/runtime/find_library.h"
#include "kernels/cuda/runtime/plugin_options.h"

namespace strata::cuda {
namespace {

absl::Status ExpectAll(const char* library, const LibraryFunctions& functions) {
  if (functions.missing() == nullptr) return absl::OkStatus();
  return absl::FailedPreconditionError(absl::StrCat(
      library, " has no function ", functions.missing(), ": it is of another version"));
}

// Opens it in the folder of the plugin's option, or otherwise in the usual places.
absl::StatusOr<FoundLibrary> Open(const std::string& file, const std::string& directory) {
  LibraryWish wish = {
      .file = file, .dir = directory, .option = "cudnn", .beside = "nvidia/cu*/lib"};
  const auto found = FindLibrary(wish, PythonPackageFolders());
  if (found.ok()) return found;
  if (!directory.empty()) return found;
  wish.dir = "/usr/local/cuda/lib64";
  const auto beside_cuda = FindLibrary(wish, {});
  return absl::IsNotFound(beside_cuda.status()) ? found : beside_cuda;
}

absl::StatusOr<const Libraries*> Load(const std::string& directory) {
  // Libraries that the others use: they find them once loaded, and manage with less if one is
  // missing.
  for (const char* name : {"libnvrtc.so.13", "libcublasLt.so.13"}) {
    (void)Open(name, directory);
  }
  // The option may name a folder with only cuDNN.
  auto cublas = Open("libcublas.so.13", directory);
  if (!cublas.ok()) cublas = Open("libcublas.so.13", "");
  if (!cublas.ok()) return cublas.status();
  const auto cudnn = Open("libcudnn.so.9", directory);
  if (!cudnn.ok()) return cudnn.status();
  static Libraries all;
  LibraryFunctions of_cudnn(*cudnn);
  of_cudnn.Find("cudnnGetVersion", &all.cudnn_version)
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
      .Find("cudnnBackendExecute", &all.execute);
  absl::Status complete = ExpectAll("libcudnn.so.9", of_cudnn);
  if (!complete.ok()) return complete;
  LibraryFunctions of_cublas(*cublas);
  of_cublas.Find("cublasCreate_v2", &all.cublas_create)
      .Find("cublasDestroy_v2", &all.cublas_destroy)
      .Find("cublasSetStream_v2", &all.cublas_set_stream)
      .Find("cublasSetMathMode", &all.cublas_set_math_mode)
      .Find("cublasSetWorkspace_v2", &all.cublas_set_workspace)
      .Find("cublasGetStatusString", &all.cublas_status_string)
      .Find("cublasGemmEx", &all.gemm);
  complete = ExpectAll("libcublas.so.13", of_cublas);
  if (!complete.ok()) return complete;
  return &all;
}

}  // namespace

absl::StatusOr<const Libraries*> LoadLibraries() {
  static const absl::StatusOr<const Libraries*> libraries = Load(CurrentOptions().cudnn_dir);
  return libraries;
}

}  // namespace strata::cuda
