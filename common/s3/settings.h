#ifndef STRATA_COMMON_S3_SETTINGS_H_
#define STRATA_COMMON_S3_SETTINGS_H_

#include <map>
#include <string>

#include "absl/status/statusor.h"
#include "absl/strings/string_view.h"
#include "common/os/environment.h"

namespace strata::s3 {

// The caller's credentials. Messages name their source and never their content.
struct Credentials {
  std::string key_id;
  std::string secret;
  std::string token;   // of a session; empty: there is none
  std::string source;  // for example "AWS_ACCESS_KEY_ID", "profile p of FILE"
};

// Everything that requests to a bucket need to know.
struct Settings {
  std::string bucket;
  std::string prefix;           // of all keys: empty, or "a/b/"
  std::string endpoint;         // "https://HOST[:PORT]", without the bucket
  bool bucket_in_host = false;  // https://BUCKET.HOST/KEY instead of https://HOST/BUCKET/KEY
  std::string region;
  std::string ca_bundle;  // a file of certificates; empty: the system's
  Credentials credentials;

  // Returns "s3://BUCKET/PREFIX".
  std::string Address() const;
  // Returns the address of the bucket: "https://HOST/BUCKET" or "https://BUCKET.HOST".
  std::string BucketUrl() const;
};

// Reads "s3://BUCKET[/PREFIX]" and finds the rest where other programs for S3 look, too:
//
//   endpoint     AWS_ENDPOINT_URL_S3, AWS_ENDPOINT_URL, `endpoint_url` of the profile; else
//   Amazon's region       AWS_REGION, AWS_DEFAULT_REGION, `region` of the profile; with an endpoint
//   of one's
//                own else us-east-1
//   credentials  AWS_ACCESS_KEY_ID, AWS_SECRET_ACCESS_KEY, AWS_SESSION_TOKEN; else the profile
//   profile      AWS_PROFILE, else `default`, in AWS_SHARED_CREDENTIALS_FILE (~/.aws/credentials)
//                and AWS_CONFIG_FILE (~/.aws/config)
//   ca_bundle    AWS_CA_BUNDLE
//
// Errors: InvalidArgument: no such address, a variable or file that is wrong, by name;
// FailedPrecondition: no region or credentials, with where they were looked for; those of files.
absl::StatusOr<Settings> FindSettings(const std::string& address, const Environment& environment);

// Fields by section and name, as in ~/.aws/credentials.
using Sections = std::map<std::string, std::map<std::string, std::string>>;

// Parses "[SECTION]" lines, "NAME = VALUE" lines and comments. Lines that begin with space belong
// to the preceding field and are skipped. Errors: InvalidArgument naming `path` and the line, never
// its content.
absl::StatusOr<Sections> ParseSections(absl::string_view text, const std::string& path);

// A user's profile: its fields in the credentials file, and those of the settings file that the
// former lacks.
struct Profile {
  std::string name;
  std::string credentials_file;
  std::string config_file;
  std::map<std::string, std::string> fields;

  // Returns a field; empty: there is none.
  std::string Field(const std::string& field) const;
};

// Reads the profile named by the environment. A missing file has no fields. Errors: those of
// existing files; FailedPrecondition: AWS_PROFILE names one that no file has.
absl::StatusOr<Profile> ReadProfile(const Environment& environment);

}  // namespace strata::s3

#endif  // STRATA_COMMON_S3_SETTINGS_H_
