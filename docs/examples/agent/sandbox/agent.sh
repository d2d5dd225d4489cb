#!/bin/sh
# The same with the command line alone: what a script, or an agent with a shell, would do.
relay="${PYTHON:-python3} ${RELAY_PYZ:-relay.pyz}"

say() {
    printf '%s: ' "$1"
    text=$($relay call "$@" 2>&1) || printf 'failed: '
    printf '%s\n' "$text" | paste -sd ',' | sed 's/,/, /g'
}

say files_list
say files_read '{"path": "greeting.txt"}'
say files_write '{"path": "greeting.txt", "text": "mine"}'
say weather '{"town": "Oslo"}'
