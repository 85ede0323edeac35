#include <CLI/CLI.hpp>
#include <cstdio>
#include <memory>
#include <string>

#include "cli/commands/commands.h"
#include "cli/describe/completion.h"

namespace strata::cli {
namespace {

std::string Script(const DescribedCommand& root, const std::string& shell) {
  if (shell == "zsh") return ZshCompletion(root);
  return shell == "fish" ? FishCompletion(root) : BashCompletion(root);
}

}  // namespace

void AddCompletionCommand(CLI::App* app, Invocation* invocation) {
  auto shell = std::make_shared<std::string>();
  CLI::App* command = app->add_subcommand(
      "completion", "Print a script by which a shell completes commands, options and values");
  command->add_option("shell", *shell, "bash, zsh or fish")
      ->check(CLI::IsMember({"bash", "zsh", "fish"}))
      ->required();
  command->footer(
      "Examples:\n"
      "  source <(strata completion bash)\n"
      "  strata completion zsh > ~/.zfunc/_strata\n"
      "  strata completion fish > ~/.config/fish/completions/strata.fish\n"
      "The folder of the second one must be in zsh's fpath, before it calls compinit.");
  command->callback([=] {
    invocation->run = [=] {
      std::fputs(Script(Describe(*app), *shell).c_str(), stdout);
      return kExitOk;
    };
  });
}

}  // namespace strata::cli
