#ifndef STRATA_COMMON_S3_PROFILE_H_
#define STRATA_COMMON_S3_PROFILE_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/process/environment.h"

namespace strata::s3 {

// Fields by section and name, as in ~/.aws/credentials.
using Sections = std::map<std::string, std::map<std::string, std::string>>;

// Reads "[SECTION]" lines, "NAME = VALUE" lines and comments. Lines that begin with space belong to
// the field before them and are passed over. Errors: InvalidArgument naming `path` and the line,
// never what stands there.
absl::StatusOr<Sections> ParseSections(absl::string_view text, const std::string& path);

// A user's profile: its fields in the file of credentials, and those of the file of settings that
// the other has not got.
struct Profile {
  std::string name;
  std::string credentials_file;
  std::string config_file;
  std::map<std::string, std::string> fields;

  // Returns a field; empty: there is none.
  std::string Field(const std::string& field) const;
};

// Reads the profile that the environment names. A file that is not there has no fields. Errors: of
// files that are there; FailedPrecondition: AWS_PROFILE names one that no file has.
absl::StatusOr<Profile> ReadProfile(const Environment& environment);

}  // namespace strata::s3

#endif  // STRATA_COMMON_S3_PROFILE_H_
