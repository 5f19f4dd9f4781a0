#!/usr/bin/env bash
# Installs missing packages on Debian and Ubuntu; on other systems lists what is needed and exits with 2.
#   jobs/install.sh [build] [products] [text] [analysis] [tests]      default: all five
set -u
. "$(dirname "$0")/lib.sh"
[ $# -gt 0 ] || set -- build products text analysis tests
install_packages "$@"
case " $* " in
*" analysis "*) python_find && say "install: figures are made with $("$python" -c 'import sys; print(sys.executable)')" ;;
esac
