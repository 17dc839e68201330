// SPDX-License-Identifier: Apache-2.0
// main() of the tests that run on any transport. On several processes they agree after each test on
// whether it has passed, and stop together if they cannot.
#include <gtest/gtest.h>
#include <malloc.h>

#include <cstdio>
#include <cstdlib>
#include <exception>
#include <limits>
#include <memory>
#include <string>

#include "tests/comm/transport_under_test.hpp"

namespace ringspan::comm::test {
namespace {

/// A line per test from the first process, and from all what fails there.
class Agreement final : public testing::EmptyTestEventListener {
 private:
  void OnTestStart(const testing::TestInfo& test) override {
    if (process().rank > 0) return;
    std::printf("%s.%s: ", test.test_suite_name(), test.name());
    std::fflush(stdout);  // in case it is the last
  }

  void OnTestPartResult(const testing::TestPartResult& result) override {
    if (result.failed()) {
      std::printf("\n[rank %d] %s:%d: %s\n", process().rank,
                  result.file_name() ? result.file_name() : "", result.line_number(),
                  result.message());
      std::fflush(stdout);
    } else if (process().rank == 0) {
      std::printf("%s ", result.message());  // why it is skipped
    }
  }

  void OnTestEnd(const testing::TestInfo& test) override {
    const testing::TestResult& result = *test.result();
    if (!result.Skipped()) agree(test);
    if (process().rank == 0)
      std::printf("%s (%d ms)\n",
                  result.Skipped()  ? "SKIPPED"
                  : result.Failed() ? "FAILED"
                                    : "ok",
                  static_cast<int>(result.elapsed_time()));
  }

  static void agree(const testing::TestInfo& test) {
    const testing::TestResult& result = *test.result();
    try {
      const auto failed = gather(result.Failed() ? "failed" : "");
      for (std::size_t rank = 0; rank < failed.size(); ++rank)
        if (!failed[rank].empty() && !result.Failed()) ADD_FAILURE() << "failed on rank " << rank;
    } catch (const std::exception& error) {
      std::fprintf(stderr, "\n[rank %d] no agreement after %s.%s: %s\n", process().rank,
                   test.test_suite_name(), test.name(), error.what());
      std::_Exit(EXIT_FAILURE);  // the launcher then ends the other processes
    }
  }
};

void print_summary(const testing::UnitTest& tests) {
  std::printf(
      "%s, %d processes: %d passed, %d failed, %d skipped; in loops, %d numbers of ranks "
      "left out\n",
      std::string(transport()).c_str(), process().size, tests.successful_test_count(),
      tests.failed_test_count(), tests.skipped_test_count(), left_out());
}

// Ranks allocate and free the same blocks in launch after launch: to get their pages from the
// system each time would be an eighth of the time of the longest tests.
void keep_freed_memory() {
#ifdef __GLIBC__
  mallopt(M_MMAP_THRESHOLD, 32 << 20);  // more it refuses
  mallopt(M_TRIM_THRESHOLD, std::numeric_limits<int>::max());
#endif
}

int run(int argc, char** argv) {
  keep_freed_memory();
  testing::InitGoogleTest(&argc, argv);
  if (on_threads()) return RUN_ALL_TESTS();

  testing::UnitTest& tests = *testing::UnitTest::GetInstance();
  delete tests.listeners().Release(tests.listeners().default_result_printer());
  tests.listeners().Append(new Agreement);  // owned by GoogleTest
  const int status = RUN_ALL_TESTS();
  if (process().rank == 0) print_summary(tests);
  if (status != EXIT_SUCCESS || tests.successful_test_count() > 0) return status;
  std::fprintf(stderr, "[rank %d] every test was skipped\n", process().rank);
  return EXIT_FAILURE;
}

}  // namespace
}  // namespace ringspan::comm::test

int main(int argc, char** argv) {
  try {
    return ringspan::comm::test::run(argc, argv);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "%s\n", error.what());
    return EXIT_FAILURE;
  }
}
