#!/bin/sh
# The shell with which npm runs an MCP server: npm starts elsewhere, and the server in the folder that it is meant for.
cd -- "$FAIRLEAD_SERVER_FOLDER" || exit
unset FAIRLEAD_SERVER_FOLDER npm_config_script_shell INIT_CWD
exec /bin/sh "$@"
