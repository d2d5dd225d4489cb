#!/bin/sh
# Starts the fleet's server with one user, whose password is a Compose secret: it stands in no
# argument, in no variable, and in no file that outlives the container. In the container nothing needs
# to be set; the variables are for running it elsewhere.
set -eu
umask 077
secret=${PASSWORD_FILE:-/run/secrets/relayconf_fleet_password}
acl=${ACL_FILE:-/tmp/users.acl}
{
    # Nobody can log in as this user; its rights are those by which the server reads its own
    # append-only file at the next start. Without them it would start empty.
    echo 'user default off ~* &* +@all'
    printf 'user relayconf on ~{relayconf}:* %s >%s\n' '+@all -@admin -@dangerous' "$(cat "$secret")"
} >"$acl"

# Changes are few and small. With an append-only file they outlive a restart; noeviction, because a
# server that forgets a key to make room would forget a kill.
exec "${SERVER:-valkey-server}" \
    --bind "${BIND:-0.0.0.0}" --port "${PORT:-6379}" --dir "${DATA:-/data}" --aclfile "$acl" \
    --appendonly yes --appendfsync everysec --save '' \
    --maxmemory 64mb --maxmemory-policy noeviction
