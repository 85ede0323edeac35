#include "cli/options/resume_option.h"

#include "absl/strings/numbers.h"

namespace strata::cli {

CLI::Option* AddResumeOption(CLI::App* command, std::string* resume) {
  return command
      ->add_option("--resume", *resume,
                   "Go on from the newest whole checkpoint in this folder, or of this job")
      ->type_name("DIR|JOB_ID");
}

proto::ResumeFrom ToResumeFrom(const std::string& text) {
  proto::ResumeFrom from;
  uint32_t job = 0;
  if (absl::SimpleAtoi(text, &job)) {
    from.set_job_id(job);
  } else {
    from.set_dir(text);
  }
  return from;
}

}  // namespace strata::cli
