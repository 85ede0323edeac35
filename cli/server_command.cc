#include "cli/command.h"
namespace strata::cli {
void AddServerCommand(CLI::App* app, Invocation* invocation) {}
}  // namespace strata::cli
