#include "client/cli/cli.h"

int main(int argc, char** argv) { return luna::cli::RunCli(argc, argv); }
