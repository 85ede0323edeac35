#include "kernels/cuda/runtime/find_library.h"

#include <dlfcn.h>
#include <glob.h>
#include <pwd.h>
#include <unistd.h>

#include "absl/strings/str_cat.h"
#include "common/os/trusted_file.h"

namespace strata::cuda {
namespace {

std::vector<std::string> Matches(const std::string& pattern) {
  std::vector<std::string> paths;
  glob_t found = {};
  if (glob(pattern.c_str(), 0, nullptr, &found) == 0) {
    paths.assign(found.gl_pathv, found.gl_pathv + found.gl_pathc);
  }
  globfree(&found);
  return paths;
}

// Errors: NotFound, with the loader's words; those of CheckTrusted for a path. A plain name is
// searched by the system.
absl::StatusOr<FoundLibrary> Open(const std::string& path) {
  if (path.find('/') != std::string::npos) {
    const absl::Status trusted = CheckTrusted(path);
    if (absl::IsNotFound(trusted)) {
      return absl::NotFoundError(absl::StrCat(path, ": cannot open: it is not there"));
    }
    if (!trusted.ok()) return trusted;
  }
  void* const handle = dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL);
  if (handle != nullptr) return FoundLibrary{handle, path};
  const char* const why = dlerror();
  return absl::NotFoundError(why == nullptr ? path : why);
}

}  // namespace

void* LibraryFunctions::FindSymbol(const char* name) {
  void* const address = dlsym(handle_, name);
  if (address == nullptr && missing_ == nullptr) missing_ = name;
  return address;
}

std::vector<std::string> PythonPackageFolders() {
  std::vector<std::string> folders;
  const passwd* user = getpwuid(getuid());
  const std::string home = user == nullptr || user->pw_dir == nullptr ? "" : user->pw_dir;
  std::vector<std::string> roots = {"/usr/local", "/usr", "/opt/*", "/opt/*/envs/*"};
  if (!home.empty()) {
    roots.insert(roots.begin(), home + "/.local");
    roots.push_back(home + "/*conda3");
  }
  for (const std::string& root : roots) {
    folders.push_back(root + "/lib/python3*/site-packages");
    folders.push_back(root + "/lib/python3*/dist-packages");
  }
  return folders;
}

absl::StatusOr<FoundLibrary> FindLibrary(const LibraryWish& wish,
                                         const std::vector<std::string>& python_folders) {
  const std::string first = wish.dir.empty() ? wish.file : absl::StrCat(wish.dir, "/", wish.file);
  absl::StatusOr<FoundLibrary> found = Open(first);
  if (found.ok()) return found;
  absl::Status error = found.status();
  if (wish.dir.empty()) {
    for (const std::string& folder : python_folders) {
      for (const std::string& path :
           Matches(absl::StrCat(folder, "/", wish.beside, "/", wish.file))) {
        found = Open(path);
        if (found.ok()) return found;
        // An error about an existing library is more useful than a missing one.
        if (absl::IsNotFound(error)) error = found.status();
      }
    }
  }
  std::string text = absl::StrCat(wish.file, ": ", error.message());
  if (wish.dir.empty() && absl::IsNotFound(error)) {
    absl::StrAppend(&text, ", nor in a Python installation's ", wish.beside, "; the plugin's ",
                    "option ", wish.option, "=DIR says where it is");
  }
  return absl::Status(error.code(), text);
}

}  // namespace strata::cuda
