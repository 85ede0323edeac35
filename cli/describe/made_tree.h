#ifndef STRATA_CLI_DESCRIBE_MADE_TREE_H_
#define STRATA_CLI_DESCRIBE_MADE_TREE_H_

#include <CLI/CLI.hpp>
#include <string>
#include <vector>

namespace strata::cli {

// A small program `tool` for tests, with options of all kinds.
class MadeTree {
 public:
  MadeTree() {
    app_.name("tool");
    app_.set_help_flag("-h,--help", "Print this help and exit");
    CLI::App* submit = app_.add_subcommand("submit", "Submit a job's file: [now]");
    submit->add_option("job", text_, "Job file")->required();
    submit->add_option("--mode", text_, "How: sync, lazy, ssp(s) or async");
    submit->add_option("--format", text_, "Form of the log")
        ->check(CLI::IsMember({"text", "json"}));
    CLI::Option* ranks = submit->add_option("-n,--ranks", number_, "Processes")
                             ->check(CLI::Range(1, 64))
                             ->capture_default_str();
    submit->add_flag("--follow", flag_, "It's shown, C:\\ too")->needs(ranks);
    submit->add_option("--set", texts_, "Change a field");
    submit->add_option("--state", text_, "Folder of the state")->excludes(ranks);
    submit->add_option("--secret", text_, "Not for people")->group("");
    submit->footer(
        "Some words.\n.in the way\nExamples:\n  tool submit a\\b.txt\nExit status: 0 well, 7 ill.");
    app_.add_subcommand("status", "Show it");
    CLI::App* checkpoint = app_.add_subcommand("checkpoint", "Saved weights");
    checkpoint->add_subcommand("list", "List them");
    checkpoint->add_subcommand("verify", "Read them");
    app_.add_subcommand("internal", "Not for people")->group("");
  }

  const CLI::App& app() const { return app_; }

 private:
  CLI::App app_{"A tool"};
  std::string text_;
  std::vector<std::string> texts_;
  int number_ = 2;
  bool flag_ = false;
};

}  // namespace strata::cli

#endif  // STRATA_CLI_DESCRIBE_MADE_TREE_H_
