#include <CLI/CLI.hpp>
#include <cstdio>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>

#include "absl/status/status.h"
#include "absl/strings/str_cat.h"
#include "cli/commands/command_tree.h"
#include "cli/commands/commands.h"
#include "cli/options/own_binary.h"
#include "cli/options/terminal.h"
#include "common/os/atomic_file.h"

namespace strata::cli {
namespace {

int RunMan(const CLI::App& app, const std::string& folder) {
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

void AddCompletionCommand(CLI::App* app, Invocation* invocation) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app->add_subcommand(
      "completion", "Print a script by which a shell completes commands, options and values");
  command->add_option("shell", *shell, "bash")->check(CLI::IsMember({"bash"}))->required();
  command->footer(
      "Examples:\n"
      "  source <(strata completion bash)\n"
      "zsh reads the same script once it has called compinit and bashcompinit.");
  command->callback([=] {
    invocation->run = [=] {
      PrintText(stdout, BashCompletion(Describe(*app)));
      return kExitOk;
    };
  });
}

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
  command->callback([=] { invocation->run = [=] { return RunMan(*app, *folder); }; });
}

}  // namespace strata::cli
