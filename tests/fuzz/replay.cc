// SPDX-License-Identifier: Apache-2.0
// Runs a fuzz target over the files of a folder, and over every file cut short and with each byte
// changed, so that the committed corpus is an ordinary test. Usage: replay_NAME FOLDER
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "require.h"

namespace {

using Input = std::vector<unsigned char>;

// From a block of just that size, so that a sanitizer sees a read past its end.
void run(const Input &input) {
    const Input exact(input.begin(), input.end());
    LLVMFuzzerTestOneInput(exact.data(), exact.size());
}

}  // namespace

int main(int argc, char **argv) {
    if (argc != 2) return 2;
    size_t files = 0;
    std::error_code error;
    for (const auto &entry : std::filesystem::directory_iterator(argv[1], error)) {
        std::ifstream file(entry.path(), std::ios::binary);
        Input input{std::istreambuf_iterator<char>(file), std::istreambuf_iterator<char>()};
        run(input);
        files++;
        for (unsigned char &byte : input) {
            const unsigned char kept = byte;
            for (unsigned char other : {kept ^ 1, kept ^ 0x80, 0, 0xff}) {
                byte = other;
                run(input);
            }
            byte = kept;
        }
        for (; !input.empty(); input.pop_back())
            run(input);
    }
    std::printf("%zu files\n", files);
    return files > 0 ? 0 : 1;
}
