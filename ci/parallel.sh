# To be sourced: `parallel FUNCTION NAME...` calls the function with each name, as many at once as the machine has CPUs, and fails with
# the first that fails. For counts only, which do not depend on other work.
parallel() {
    local function=$1 running=0 name
    shift
    for name; do
        "$function" "$name" &
        running=$((running + 1))
        if ((running == $(nproc))); then
            wait -n
            running=$((running - 1))
        fi
    done
    for ((; running; running--)); do wait -n; done
}
