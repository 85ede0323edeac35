#include <CLI/CLI.hpp>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cli/commands/commands.h"
#include "cli/describe/man_pages.h"
#include "cli/program/version.h"
#include "common/file/atomic_file.h"
#include "common/file/file_error.h"

namespace strata::cli {
namespace {

int Run(const CLI::App& app, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) return PrintError(FileError(error.value(), folder));
  for (const auto& [name, page] : ManPages(Describe(app), kVersion)) {
    const absl::Status written = WriteFileAtomically(absl::StrCat(folder, "/", name), page);
    if (!written.ok()) return PrintError(written);
  }
  return kExitOk;
}

}  // namespace

void AddManCommand(CLI::App* app, Invocation* invocation) {
  auto folder = std::make_shared<std::string>();
  CLI::App* command =
      app->add_subcommand("man", "Write a manual page of each command into a folder");
  command->add_option("folder", *folder, "Folder for the pages; it is made where it is not there")
      ->required();
  command->footer(
      "Examples:\n"
      "  strata man ~/.local/share/man/man1\n"
      "  man strata-submit");
  command->callback([=] { invocation->run = [=] { return Run(*app, *folder); }; });
}

}  // namespace strata::cli
