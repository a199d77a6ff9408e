#!/bin/sh
# A controller from outside, in shell: reads congestion events of moorlined with curl and puts the
# context that is congested on the first pair that shares no end with the current one. Ends after one
# move; run it in a loop, with a pause, for more.
#
#     leave-congestion.sh [SOCKET]
#
# Needs curl and jq, and root or the group `moorline`.
set -eu
socket=${1:-/run/moorline/moorlined.sock}

ask() { curl --silent --show-error --unix-socket "$socket" "$@"; }

# Each event is a line that begins with "data:".
ask --no-buffer http://moorlined/v1/events | while IFS= read -r line; do
	event=${line#data:}
	[ "$event" != "$line" ] || continue
	[ "$(printf %s "$event" | jq -r .kind)" = congested ] || continue
	printf %s "$event" | jq -r '"congested: \(.to.local) -> \(.to.peer) (\(.reason))"'
	request=$(ask http://moorlined/v1/paths | jq --argjson event "$event" '
		.contexts[] | select(.context == $event.context) | .paths[0] as $now
		| [.paths[1:][] | select(.state != "unusable" and .preference != "avoid")
			| select(.local != $now.local and .peer != $now.peer)][0]
		| select(. != null)
		| {scope: "\($event.context)", pair: {local, peer}}')
	[ -n "$request" ] || continue
	answer=$(ask --data "$request" http://moorlined/v1/paths/switch)
	printf '%s\n' "$answer" | jq -r 'if .outcomes then .outcomes[].text else .error end'
	if printf %s "$answer" | jq -e '.outcomes[]? | select(.result == "moved")' >/dev/null; then
		exit 0
	fi
done
