! The seed program. Only what stands in the evolve block may change; a model's edits may put anything there.
!
! It reads one instance a line and writes one answer a line. What it prints to error_unit is shown if it fails.
module tours
    use, intrinsic :: iso_fortran_env, only: int64, real64, output_unit
    implicit none

    ! EVOLVE-BLOCK-START
    character(*), parameter :: start = "given"
    character(*), parameter :: improve = "none"
    integer, parameter :: tries = 200
    real, parameter :: heat = 0.0
    integer, parameter :: draw = 1

    integer(int64) :: state

contains

    ! The generator of Park and Miller: numbers between 0 and 1.
    real(real64) function luck()
        state = mod(state * 16807_int64, 2147483647_int64)
        luck = real(state - 1, real64) / 2147483646.0_real64
    end function luck

    integer function below(n)
        integer, intent(in) :: n
        below = int(luck() * n)
    end function below

    real(real64) function away(points, a, b)
        real(real64), intent(in) :: points(:, :)
        integer, intent(in) :: a, b
        away = sqrt((points(1, a) - points(1, b))**2 + (points(2, a) - points(2, b))**2)
    end function away

    real(real64) function length(points, order)
        real(real64), intent(in) :: points(:, :)
        integer, intent(in) :: order(:)
        integer :: i
        length = 0
        do i = 1, size(order)
            length = length + away(points, order(i), order(mod(i, size(order)) + 1))
        end do
    end function length

    subroutine swap(order, a, b)
        integer, intent(inout) :: order(:)
        integer, intent(in) :: a, b
        integer :: kept
        kept = order(a)
        order(a) = order(b)
        order(b) = kept
    end subroutine swap

    function begin(points) result(order)
        real(real64), intent(in) :: points(:, :)
        integer :: order(size(points, 2)), i, j, near
        real(real64) :: angle(size(points, 2))
        order = [(i, i = 1, size(order))]
        if (start == "sweep") then
            angle = atan2(points(2, :) - 0.5_real64, points(1, :) - 0.5_real64)
            do i = 2, size(order)
                do j = i, 2, -1
                    if (angle(order(j)) >= angle(order(j - 1))) exit
                    call swap(order, j, j - 1)
                end do
            end do
        else if (start == "nearest") then
            do i = 2, size(order)
                near = i
                do j = i, size(order)
                    if (away(points, order(j), order(i - 1)) < away(points, order(near), order(i - 1))) near = j
                end do
                call swap(order, i, near)
            end do
        end if
    end function begin

    function changed(order) result(other)
        integer, intent(in) :: order(:)
        integer :: other(size(order)), a, b, kept
        a = below(size(order)) + 1
        b = below(size(order)) + 1
        if (a > b) then
            kept = a
            a = b
            b = kept
        end if
        other = order
        if (improve == "swap") then
            call swap(other, a, b)
            return
        end if
        if (improve == "both") then
            if (luck() < 0.5_real64) then
                call swap(other, a, b)
                return
            end if
        end if
        other(a:b) = order(b:a:-1)
    end function changed

    function tour(points) result(best)
        real(real64), intent(in) :: points(:, :)
        integer :: best(size(points, 2)), order(size(points, 2)), other(size(points, 2)), step
        real(real64) :: best_length, now, found
        state = 7919_int64 * draw
        order = begin(points)
        best = order
        if (improve == "none") return
        best_length = length(points, order)
        now = best_length
        do step = 0, tries - 1
            other = changed(order)
            found = length(points, other)
            if (found < now + heat * (1.0_real64 - real(step, real64) / tries) * luck()) then
                order = other
                now = found
                if (now < best_length) then
                    best = order
                    best_length = now
                end if
            end if
        end do
    end function tour

    ! EVOLVE-BLOCK-END

end module tours

program main
    use tours
    implicit none
    character(:), allocatable :: line
    real(real64), allocatable :: numbers(:)
    integer :: ending
    do
        call read_line(line, ending)
        if (ending /= 0) exit
        numbers = numbers_in(line)
        call answer(tour(reshape(numbers, [2, size(numbers) / 2])))
    end do

contains

    ! One line of standard input, however long.
    subroutine read_line(line, ending)
        character(:), allocatable, intent(out) :: line
        integer, intent(out) :: ending
        character(4096) :: part
        integer :: got
        line = ""
        do
            read (*, "(a)", advance="no", iostat=ending, size=got) part
            line = line // part(:got)
            if (is_iostat_eor(ending)) then
                ending = 0
                return
            end if
            if (ending /= 0) return
        end do
    end subroutine read_line

    ! The points of {"points": [[x, y], ...]}: all numbers of the line.
    function numbers_in(line) result(numbers)
        character(*), intent(in) :: line
        real(real64), allocatable :: numbers(:)
        real(real64) :: value
        integer :: at, after, count
        allocate (numbers(len(line)))
        at = scan(line, "[")
        count = 0
        do
            after = verify(line(at:), "[], ") + at - 1
            if (after < at) exit
            at = scan(line(after:), "[], }") + after - 1
            if (line(after:after) == "}" .or. at < after) exit
            read (line(after:at - 1), *) value
            count = count + 1
            numbers(count) = value
        end do
        numbers = numbers(:count)
    end function numbers_in

    subroutine answer(order)
        integer, intent(in) :: order(:)
        integer :: i
        write (output_unit, "(a, *(i0, :, ','))", advance="no") "[", [(order(i) - 1, i = 1, size(order))]
        write (output_unit, "(a)") "]"
        flush (output_unit)  ! the next instance comes after this answer
    end subroutine answer

end program main
